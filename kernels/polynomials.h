/* polynomials.h: the numbers of exp, tanh, erf, sin and cos of float32, which the CPU's kernels (cpu/exponential.h,
 * cpu/elements.h, cpu/trigonometric.h) and native code (engine/native/write_math.c; erf is called) compute with the
 * same operations in the same order, and so to the same bits.
 */
#ifndef DFLOW_POLYNOMIALS_H
#define DFLOW_POLYNOMIALS_H
#include <stdbool.h>

/* Do this machine's kernels have them? They want a fused multiply-add. */
bool dfk_polynomials(void);

/* What is added to it has no fraction left, and its last bits are a whole number. */
#define DFK_PERSISTENT      0x1.8p23f
#define DFK_PERSISTENT_BITS 0x4b400000

/* exp, from -105 to 89: 1 / log(2), -log(2) in two parts, and the polynomial from its highest power on. */
#define DFK_EXP_LEAST  -105.0f
#define DFK_EXP_MOST   89.0f
#define DFK_PER_LOG2   0x1.715476p0f
#define DFK_LOG2_HIGH  -0x1.62e43p-1f
#define DFK_LOG2_LOW   0x1.05c61p-29f
#define DFK_EXP        { 0x1.6a23d0p-10f, 0x1.123a20p-7f, 0x1.5558f2p-5f, 0x1.555492p-3f, 0x1.fffffcp-2f }

/* tanh below DFK_TANH_NEAR: x + x z p(z), z = x^2 (Cephes's). */
#define DFK_TANH_NEAR  0.625f
#define DFK_TANH       { -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, \
                         -3.33332819422e-1f }

/* erf below 1: x + x p(x^2); from there to DFK_ERF_MOST 1 - exp(q(x)); p and q of the least greatest error (0.04 ulp),
   from the highest power on. */
#define DFK_ERF_MOST   3.95f
#define DFK_ERF_NEAR   { 0x1.496a32p-14f, -0x1.a3f7p-11f, 0x1.5405b2p-8f, -0x1.b7f90ep-6f, 0x1.ce2cf8p-4f, \
                         -0x1.81273ep-2f, 0x1.06eba8p-3f }
#define DFK_ERF_FAR    { 0x1.86dda8p-13f, -0x1.825b0ep-9f, 0x1.65cb82p-6f, -0x1.a65348p-4f, -0x1.46baeap-1f, \
                         -0x1.2088eap0f, -0x1.661c5ep-12f }

/* sin and cos below DFK_ANGLE_MOST: 2 / pi, -pi / 2 in three parts, and on [-pi/4, pi/4] sin r = r + r z p(z),
   cos r = 1 - z / 2 + z^2 q(z), z = r^2, p and q of the least greatest error (0.06 and 0.002 ulp). */
#define DFK_ANGLE_MOST 65536.0f
#define DFK_PER_TURN   0x1.45f306p-1f
#define DFK_TURN_HIGH  -0x1.921fb6p0f
#define DFK_TURN_MID   0x1.777a5cp-25f
#define DFK_TURN_LOW   0x1.ee59dap-50f
#define DFK_SIN        { -0x1.9952fep-13f, 0x1.110776p-7f, -0x1.555546p-3f }
#define DFK_COS        { 0x1.99e80cp-16f, -0x1.6c0c28p-10f, 0x1.55554ap-5f }
#endif
