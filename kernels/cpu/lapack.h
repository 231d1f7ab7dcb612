/* lapack.h: LAPACK, loaded when the first decomposition asks for it, and single-threaded as blas.h has it. All matrices
 * are doubles, column by column; the names and arguments are LAPACK's.
 */
#ifndef DFLOW_CPU_LAPACK_H
#define DFLOW_CPU_LAPACK_H

typedef struct lapack {
  void (*dgetrf)(const int *m, const int *n, double *a, const int *lda, int *ipiv, int *info);
  void (*dgetrs)(const char *trans, const int *n, const int *nrhs, const double *a, const int *lda, const int *ipiv,
                 double *b, const int *ldb, int *info, long);
  void (*dpotrf)(const char *uplo, const int *n, double *a, const int *lda, int *info, long);
  void (*dgeqrf)(const int *m, const int *n, double *a, const int *lda, double *tau, double *work, const int *lwork,
                 int *info);
  void (*dorgqr)(const int *m, const int *n, const int *k, double *a, const int *lda, const double *tau, double *work,
                 const int *lwork, int *info);
  void (*dgesdd)(const char *jobz, const int *m, const int *n, double *a, const int *lda, double *s, double *u,
                 const int *ldu, double *vt, const int *ldvt, double *work, const int *lwork, int *iwork, int *info,
                 long);
  void (*dsyevd)(const char *jobz, const char *uplo, const int *n, double *a, const int *lda, double *w, double *work,
                 const int *lwork, int *iwork, const int *liwork, int *info, long, long);
} lapack;
/* NULL: it is not installed. Any thread. */
const lapack *dfk_lapack(void);
#endif
