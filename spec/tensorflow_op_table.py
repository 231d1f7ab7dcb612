"""Writes runtime/tensorflow/export_table.c: what TensorFlow's registry says of the ops that dflow has too.

  python3 spec/tensorflow_op_table.py build/release/dflow > runtime/tensorflow/export_table.c
"""
import os
import subprocess
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import tensorflow as tf  # noqa: E402,F401  (loading it registers all ops)
from tensorflow.python.framework import op_def_registry  # noqa: E402

KIND = {'int': 'i', 'float': 'f', 'bool': 'b', 'string': 's', 'type': 'd', 'shape': 'h', 'tensor': 't',
        'list(int)': 'l', 'list(type)': 'y', 'list(shape)': 'p', 'list(bool)': 'B', 'list(float)': 'F',
        'list(string)': 'S', 'func': '?', 'list(func)': '?', 'list(tensor)': '?'}


def arg(a):
  if a.type_list_attr:
    return '@' + a.type_list_attr
  text = a.type_attr or '=%d' % (a.type % 100)
  return '%s*%s' % (a.number_attr, text) if a.number_attr else text


def main():
  code = 'for _, t in ipairs(require("dflow.front.registry").types()) do print(t) end'
  types = subprocess.run([sys.argv[1], '-e', code], capture_output=True, text=True, check=True).stdout.split()
  print('''/* export_table.c: the arguments and attributes of TensorFlow's ops, as far as dflow has an entry of that type.
 *
 * Written by spec/tensorflow_op_table.py from TensorFlow %s. An argument is the attribute that holds its type, `=3` where the type
 * is the same always, `N*T` a list of N, `@T` a list whose types the attribute T lists. An attribute is `name:kind`, with `!` where
 * there is no default; kinds are those of op.h, and B, F, S lists of bool, float, string.
 */
#include "export.h"

const dfi_export_op dfi_export_table[] = {''' % tf.__version__)
  n = 0
  for name in sorted(types, key=lambda s: s.encode()):
    op = op_def_registry.get(name)
    if op is None:
      continue
    attrs = ['%s:%s%s' % (a.name, KIND[a.type], '' if a.HasField('default_value') else '!') for a in op.attr]
    fields = [name, ' '.join(map(arg, op.input_arg)), ' '.join(map(arg, op.output_arg)), ' '.join(attrs)]
    print('  { %s },' % ', '.join('"%s"' % f for f in fields))
    n += 1
  print('};\nconst int32_t dfi_export_table_size = sizeof dfi_export_table / sizeof *dfi_export_table;')


main()
