/* string.c: entries of ops on strings and of values as text, with TensorFlow's names and attributes. A string is bytes.
 * None has a gradient. Kernels are in kernels/ref/string.c and string_text.c.
 */
#include "op/op.h"
#include "kernels/string.h"

static int32_t shape_join(dfi_infer *c) {
  dfi_shape all = dfi_shape_scalar();
  bool open = false;
  char a[160], b[160];
  for (int32_t i = 0; i < c->node->nin; i++) {
    const dfi_shape *s = dfi_in_shape(c, i);
    if (s->rank < 0) open = true;
    if (s->rank <= 0) continue;
    if (all.rank == 0) all = *s;
    else if (!dfi_shape_merge(&all, s, &all))
      return dfi_infer_fail(c, "%s and %s are joined: they must have one shape, or be scalars", dfi_shape_text(&all, a),
                            dfi_shape_text(s, b));
  }
  *dfi_set_shape(c, 0) = open && all.rank == 0 ? dfi_shape_unknown() : all;
  return DF_OK;
}

static int32_t shape_split(dfi_infer *c) {
  *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ -1, 2 });
  *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  *dfi_set_shape(c, 2) = dfi_shape_vector(2);
  return DF_OK;
}

static int32_t shape_vectors(dfi_infer *c) {
  for (int32_t i = 0; i < c->node->nout; i++) *dfi_set_shape(c, i) = dfi_shape_vector(-1);
  return DF_OK;
}

static int32_t shape_decode(dfi_infer *c) {
  dfi_shape s = *dfi_in_shape(c, 0);
  if (s.rank < 0 || s.rank == DF_MAX_RANK) return DF_OK;
  s.dims[s.rank++] = -1;
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

#define BUCKET(TYPE, LUA, KERNEL, DOC) \
  { .type = TYPE, .lua = LUA, .in = "input:string", .out = "output:int64", .attrs = "num_buckets:int[1..]", \
    .doc = DOC, .example = "df." LUA "({'a', 'b'}, {num_buckets = 10})", \
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = KERNEL } }

#define ERRORS "errors:string[strict|replace|ignore]='replace' "
#define DECODE "input_encoding:string " ERRORS "replacement_char:int[0..1114111]=65533 " \
                                        "replace_control_characters:bool=false " \
               "Tsplits:dtype=int64"

static const df_op ops[] = {
  { .type = "AsString", .lua = "as_string", .in = "input:T", .out = "output:string",
    .types = "T=number|bool|complex|string",
    .attrs = "precision:int=-1 scientific:bool=false shortest:bool=false width:int=-1 fill:string=''",
    .doc = "string[...] = as_string(input T[...]; precision, scientific, shortest, width, fill): each element as text, "
    "as C's printf writes it: with "
           "%f, %e where scientific, %g where shortest; true and false; (re,im)",
    .example = "df.as_string({1.5, 2.25}, {precision = 2})  --> {'1.50', '2.25'}",
    .output = "[\"1.50\" \"2.25\"] string[2]",
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = ref_as_string } },
  { .type = "StringFormat", .lua = "string_format", .in = "inputs:any*", .out = "output:string",
    .attrs = "template:string='%s' placeholder:string='%s' summarize:int=3",
    .doc = "string = string_format(inputs; template, placeholder, summarize): the template with a placeholder for each "
    "input, of which summarize "
           "elements from either end of each axis are written",
    .example = "df.string_format({df.float32{1, 2}}, {template = 'x is {}', placeholder = '{}'})",
    .output = "\"x is [1 2]\"",
    .shape = dfi_shape_all_scalar, .no_grad = true, .kernel = { [DF_REF] = ref_string_format } },
  { .type = "PrintV2", .in = "input:string", .out = "", .attrs = "output_stream:string='stderr' end:string='\\n'",
    .doc = "writes a string and `end` to stdout, stderr or file://path", .stateful = true, .effect = true,
    .no_grad = true,
    .kernel = { [DF_REF] = ref_print_v2 } },
  { .type = "StringJoin", .lua = "string_join", .in = "inputs:string*", .out = "output:string",
    .attrs = "separator:string=''",
    .doc = "string[...] = string_join(list of string[...]; separator): element by element one behind the other; "
    "scalars go with every element",
    .example = "df.string_join({df.constant({'a', 'b'}), df.constant('!')})  --> {'a!', 'b!'}",
    .output = "[\"a!\" \"b!\"] string[2]",
    .shape = shape_join, .no_grad = true, .kernel = { [DF_REF] = ref_string_join } },
  { .type = "ReduceJoin", .lua = "reduce_join", .in = "inputs:string reduction_indices:int32", .out = "output:string",
    .attrs = "keep_dims:bool=false separator:string=''",
    .doc = "string[...] = reduce_join(inputs string[...], reduction_indices int32; keep_dims, separator): all strings "
    "along the axes one behind the "
           "other, in the order of the axes",
    .example = "df.reduce_join({{'a', 'b'}, {'c', 'd'}}, {1})  --> {'ab', 'cd'}",
    .output = "[\"ab\" \"cd\"] string[2]",
    .no_grad = true,
    .kernel = { [DF_REF] = ref_reduce_join } },
  { .type = "StringToNumber", .lua = "string_to_number", .in = "string_tensor:string", .out = "output:out_type",
    .types = "out_type=float32|float64|int32|int64|uint32|uint64", .attrs = "out_type:dtype=float32",
    .doc = "out_type[...] = string_to_number(string_tensor string[...]; out_type): the numbers that the strings are. "
    "Error: one is none",
    .example = "df.string_to_number({'1.5', '2'})  --> {1.5, 2}",
    .output = "[1.5 2.0] float32[2]",
    .derivative = "none: strings have no derivative",
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = ref_string_to_number } },
  { .type = "StringLength", .lua = "string_length", .in = "input:string", .out = "output:int32",
    .attrs = "unit:string[BYTE|UTF8_CHAR]='BYTE'",
    .doc = "int32[...] = string_length(input string[...]; unit): bytes, or characters with unit 'UTF8_CHAR'",
    .example = "df.string_length({'abc', ''})  --> {3, 0}",
    .output = "[3 0] int32[2]",
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = ref_string_length } },
  { .type = "Substr", .lua = "substr", .in = "input:string pos:T len:T", .out = "output:string",
    .types = "T=int32|int64",
    .attrs = "unit:string[BYTE|UTF8_CHAR]='BYTE'",
    .doc = "string[...] = substr(input string[...], pos, len; unit): len bytes (characters with unit 'UTF8_CHAR') from "
    "pos on; a negative pos counts "
           "from the end. pos and len are one number each, or one for each string. Error: pos is outside of a string",
    .example = "df.substr({'hello'}, 1, 3)  --> {'ell'}",
    .output = "[\"ell\"] string[1]",
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = ref_substr } },
  { .type = "StringLower", .lua = "string_lower", .in = "input:string", .out = "output:string",
    .attrs = "encoding:string[|utf-8]=''",
    .doc = "string[...] = string_lower(input string[...]; encoding): letters in lower case: those of ASCII, or "
    "with encoding 'utf-8' those of Unicode",
    .example = "df.string_lower({'Abc'})  --> {'abc'}",
    .output = "[\"abc\"] string[1]",
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = ref_string_lower } },
  { .type = "StringUpper", .lua = "string_upper", .in = "input:string", .out = "output:string",
    .attrs = "encoding:string[|utf-8]=''",
    .doc = "string[...] = string_upper(input string[...]; encoding): letters in upper case: those of ASCII, or "
    "with encoding 'utf-8' those of Unicode",
    .example = "df.string_upper({'Abc'})  --> {'ABC'}",
    .output = "[\"ABC\"] string[1]",
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = ref_string_upper } },
  { .type = "StringStrip", .lua = "string_strip", .in = "input:string", .out = "output:string",
    .doc = "string[...] = string_strip(input string[...]): without the spaces around",
    .example = "df.string_strip({' a '})  --> {'a'}",
    .output = "[\"a\"] string[1]",
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = ref_string_strip } },
  { .type = "StringSplit", .lua = "string_split", .in = "input:string delimiter:string",
    .out = "indices:int64 values:string shape:int64",
    .attrs = "skip_empty:bool=true",
    .doc = "indices int64[n, 2], values string[n], shape int64[2] = string_split(input string[m], delimiter string; "
    "skip_empty): the parts between the "
           "bytes of delimiter, as a sparse matrix; without a delimiter every byte is a part",
    .example = "df.string_split({'a b', 'c'}, ' ')",
    .output = "[[0 0]\n [0 1]\n [1 0]] int64[3,2]\n[\"a\" \"b\" \"c\"] string[3]\n[2 2] int64[2]",
    .shape = shape_split, .no_grad = true, .kernel = { [DF_REF] = ref_string_split } },
  { .type = "StringSplitV2", .lua = "string_split_v2", .in = "input:string sep:string",
    .out = "indices:int64 values:string shape:int64", .attrs = "maxsplit:int=-1",
    .doc = "indices int64[n, 2], values string[n], shape int64[2] = string_split_v2(input string[m], sep string; "
    "maxsplit): the parts between occurrences of sep, as a sparse matrix; with sep '' the words between spaces; of "
    "maxsplit 0 or more the last part is all that is left after so many",
    .example = "df.string_split_v2({'a<>b<>c', 'd'}, '<>')",
    .output = "[[0 0]\n [0 1]\n [0 2]\n [1 0]] int64[4,2]\n[\"a\" \"b\" \"c\" \"d\"] string[4]\n[2 3] int64[2]",
    .shape = shape_split, .no_grad = true, .kernel = { [DF_REF] = ref_string_split_v2 } },
  { .type = "StringNGrams", .in = "data:string data_splits:Tsplits", .out = "ngrams:string ngrams_splits:Tsplits",
    .types = "Tsplits=int32|int64",
    .attrs = "separator:string ngram_widths:ints left_pad:string right_pad:string pad_width:int[-1..1024] "
    "preserve_short_sequences:bool",
    .doc = "the n-grams of each row of words", .shape = shape_vectors, .no_grad = true,
    .kernel = { [DF_REF] = ref_string_ngrams } },
  { .type = "UnicodeDecode", .in = "input:string", .out = "row_splits:Tsplits char_values:int32",
    .types = "Tsplits=int32|int64", .attrs = DECODE, .doc = "the characters of texts in UTF-8, a row for each",
    .shape = shape_vectors, .no_grad = true, .kernel = { [DF_REF] = ref_unicode_decode } },
  { .type = "UnicodeDecodeWithOffsets", .in = "input:string",
    .out = "row_splits:Tsplits char_values:int32 char_to_byte_starts:int64", .types = "Tsplits=int32|int64",
    .attrs = DECODE, .doc = "UnicodeDecode, and at which byte each character begins", .shape = shape_vectors,
    .no_grad = true, .kernel = { [DF_REF] = ref_unicode_decode } },
  { .type = "UnicodeEncode", .in = "input_values:int32 input_splits:Tsplits", .out = "output:string",
    .types = "Tsplits=int32|int64",
    .attrs = ERRORS "output_encoding:string[UTF-8|UTF-16-BE|UTF-32-BE] replacement_char:int[0..1114111]=65533",
    .doc = "rows of characters as texts in UTF-8", .shape = shape_vectors, .no_grad = true,
    .kernel = { [DF_REF] = ref_unicode_encode } },
  { .type = "EncodeBase64", .lua = "encode_base64", .in = "input:string", .out = "output:string",
    .attrs = "pad:bool=false",
    .doc = "string[...] = encode_base64(input string[...]; pad): bytes as text of the 64 letters that URLs may "
           "have; with "
    "pad filled up with = to a multiple of four",
    .example = "df.encode_base64({'dflow'})  --> {'ZGZsb3c'}",
    .output = "[\"ZGZsb3c\"] string[1]",
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = ref_encode_base64 } },
  { .type = "DecodeBase64", .lua = "decode_base64", .in = "input:string", .out = "output:string",
    .doc = "string[...] = decode_base64(input string[...]): the bytes that encode_base64 made a text of. Error: "
           "it is none",
    .example = "df.decode_base64({'ZGZsb3c'})  --> {'dflow'}",
    .output = "[\"dflow\"] string[1]",
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = ref_decode_base64 } },
  { .type = "RegexReplace", .lua = "regex_replace", .in = "input:string pattern:string rewrite:string",
    .out = "output:string", .attrs = "replace_global:bool=true",
    .doc = "string[...] = regex_replace(input string[...], pattern string, rewrite string; replace_global): the parts "
    "that match a pattern of RE2's syntax give way to rewrite, in which \\1 is what the first group matched and "
    "\\0 the "
    "whole match; without replace_global the first part only",
    .example = "df.regex_replace({'a-b', 'c'}, '([a-z])-', '\\\\1+')  --> {'a+b', 'c'}",
    .output = "[\"a+b\" \"c\"] string[2]",
    .shape = dfi_shape_same, .no_grad = true, .expensive = true, .kernel = { [DF_REF] = ref_regex_replace } },
  { .type = "StaticRegexReplace", .in = "input:string", .out = "output:string",
    .attrs = "pattern:string rewrite:string replace_global:bool=true",
    .doc = "RegexReplace with a pattern that is known", .shape = dfi_shape_same, .no_grad = true,
    .expensive = true, .kernel = { [DF_REF] = ref_static_regex_replace } },
  { .type = "RegexFullMatch", .lua = "regex_full_match", .in = "input:string pattern:string", .out = "output:bool",
    .doc = "bool[...] = regex_full_match(input string[...], pattern string): whether all of each string matches a "
    "pattern of RE2's syntax",
    .example = "df.regex_full_match({'ab1', 'ab'}, '[a-z]+\\\\d')  --> {true, false}",
    .output = "[ true false] bool[2]",
    .shape = dfi_shape_same, .no_grad = true, .expensive = true, .kernel = { [DF_REF] = ref_regex_full_match } },
  { .type = "StaticRegexFullMatch", .in = "input:string", .out = "output:bool", .attrs = "pattern:string",
    .doc = "RegexFullMatch with a pattern that is known", .shape = dfi_shape_same, .no_grad = true,
    .expensive = true, .kernel = { [DF_REF] = ref_static_regex_full_match } },
  BUCKET("StringToHashBucketFast", "string_to_hash_bucket_fast", ref_hash_bucket_fast,
         "int64[...] = string_to_hash_bucket_fast(input string[...]; num_buckets): FarmHash's fingerprint of each "
         "string, modulo num_buckets: TensorFlow's numbers"),
  { .type = "StringToHashBucketStrong", .lua = "string_to_hash_bucket_strong", .in = "input:string",
    .out = "output:int64", .attrs = "num_buckets:int[1..] key:ints",
    .doc = "int64[...] = string_to_hash_bucket_strong(input string[...]; num_buckets, key): SipHash of each string "
    "under a key of two integers, modulo num_buckets: without the key one bucket cannot be filled",
    .example = "df.string_to_hash_bucket_strong({'a', 'b'}, {num_buckets = 10, key = {1, 2}})",
    .output = "[6 4] int64[2]",
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = ref_hash_bucket_strong } },
  BUCKET("StringToHashBucket", "string_to_hash_bucket", ref_hash_bucket,
         "int64[...] = string_to_hash_bucket(input string[...]; num_buckets): TensorFlow's first hash of each string, "
         "modulo num_buckets; string_to_hash_bucket_fast is the better one"),
  { .type = "DecodeRaw", .lua = "decode_raw", .in = "bytes:string", .out = "output:out_type",
    .types = "out_type=number|bool|complex",
    .attrs = "out_type:dtype little_endian:bool=true",
    .doc = "out_type[..., n] = decode_raw(bytes string[...]; out_type, little_endian): the numbers that the bytes of "
    "strings of one length are",
    .example = "df.decode_raw({'abc'}, {out_type = 'uint8'})  --> {{97, 98, 99}}",
    .output = "[[97 98 99]] uint8[1,3]",
    .derivative = "none: bytes have no derivative",
    .shape = shape_decode, .no_grad = true, .kernel = { [DF_REF] = ref_decode_raw } },
};
const dfi_op_table dfi_ops_string = { ops, sizeof ops / sizeof *ops };
