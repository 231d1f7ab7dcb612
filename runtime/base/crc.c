/* crc.c: Castagnoli's checksum, CRC-32C, which TFRecord, event files and TensorFlow's checkpoints carry; eight bytes a
   step. */
#include "base/internal.h"

static uint32_t table[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_table(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
    table[0][i] = c;
  }
  for (int k = 1; k < 8; k++)
    for (uint32_t i = 0; i < 256; i++) table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

uint32_t dfi_crc32c(uint32_t sum, const void *bytes, size_t n) {
  pthread_once(&once, make_table);
  uint32_t c = ~sum;
  const unsigned char *p = bytes;
  for (; n >= 8; n -= 8, p += 8) {
    c ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    c = table[7][c & 255] ^ table[6][c >> 8 & 255] ^ table[5][c >> 16 & 255] ^ table[4][c >> 24] ^ table[3][p[4]] ^
        table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
  }
  for (; n > 0; n--, p++) c = table[0][(c ^ *p) & 255] ^ c >> 8;
  return ~c;
}

int64_t df_crc32c(const char *bytes, int64_t n) { return (int64_t)dfi_crc32c(0, bytes, n > 0 ? (size_t)n : 0); }
