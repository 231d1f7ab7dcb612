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


def row(fields, names):
  """A row of a table: its fields, then the names of its ops, in lines of 120 columns that are broken between words."""
  lines, rest = [], '  { %s, "%s" },' % (fields, ' '.join(names))
  while len(rest) > 120:
    at = rest.rindex(' ', 0, 117)
    inside = rest.count('"', 0, at) % 2                   # the text goes on as another one
    lines.append(rest[:at] + (' "' if inside else ''))
    rest = '    ' + ('"' if inside else '') + rest[at + 1:]
  return '\n'.join(lines + [rest])


def check_outputs(names):
  """In a FunctionDef outputs are called by TensorFlow's names, which export_function.c takes from the entries."""
  wrong = []
  for name, ours in names.items():
    op = op_def_registry.get(name)
    theirs = [a.name for a in op.output_arg] if op else []
    if theirs and theirs != ours and not name.startswith('TensorArray'):
      wrong.append('%s: %s, TensorFlow has %s' % (name, ' '.join(ours), ' '.join(theirs)))
  if wrong:
    sys.exit('outputs of other names:\n' + '\n'.join(wrong))


def main():
  code = '''
    local registry = require 'dflow.front.registry'
    for _, t in ipairs(registry.types()) do
      local words, entry = { t }, registry.entry(t)
      for var, set in pairs(entry.types) do
        for d in pairs(set) do words[#words + 1] = var .. '=' .. d end
      end
      for _, o in ipairs(entry.outputs) do words[#words + 1] = o.name .. '=' end
      print(table.concat(words, ' '))
    end'''
  lines = subprocess.run([sys.argv[1], '-e', code], capture_output=True, text=True, check=True).stdout.splitlines()
  words = {line.split()[0]: [tuple(word.split('=')) for word in line.split()[1:]] for line in lines}
  ours = {name: {(var, t) for var, t in pairs if t} for name, pairs in words.items()}
  types, rows, narrow = list(ours), {}, {}
  check_outputs({name: [var for var, t in pairs if not t] for name, pairs in words.items()})
  print('''/* export_table.c: the arguments and attributes of TensorFlow's ops, as far as dflow has an entry of that type.
 *
 * Written by spec/tensorflow_op_table.py from TensorFlow %s. An argument is the attribute that holds its type, `=3`
 * where the type is the same always, `N*T` a list of N, `@T` a list whose types the attribute T lists. An attribute is
 * `name:kind`, with `!` where there is no default; kinds are those of op.h, and B, F, S lists of bool, float, string.
 */
#include "tensorflow/export.h"

const dfi_export_row dfi_export_table[] = {''' % tf.__version__)
  for name in sorted(types, key=lambda s: s.encode()):
    op = op_def_registry.get(name)
    if op is None:
      continue
    attrs = ['%s:%s%s' % (a.name, KIND[a.type], '' if a.HasField('default_value') else '!') for a in op.attr]
    fields = [' '.join(map(arg, op.input_arg)), ' '.join(map(arg, op.output_arg)), ' '.join(attrs)]
    rows.setdefault('{ %s }' % ', '.join('"%s"' % f for f in fields), []).append(name)
    for a in op.attr:
      theirs = {str(t) for t in a.allowed_values.list.type}
      missing = {t for var, t in ours[name] if var == a.name and int(t) < 32} - theirs
      if theirs and missing:
        dtypes = '0x%xu' % sum(1 << int(t) for t in theirs if int(t) < 32)
        narrow.setdefault('"%s", %s' % (a.name, dtypes), []).append(name)
  for fields, names in rows.items():
    print(row(fields, names))
  print('};\nconst int32_t dfi_export_table_size = sizeof dfi_export_table / sizeof *dfi_export_table;')
  print('''
/* Attributes that take fewer dtypes there than here: those that they take, bit by bit. */
const dfi_export_narrow dfi_export_narrows[] = {''')
  for fields, names in narrow.items():
    print(row(fields, names))
  print('};\nconst int32_t dfi_export_narrows_size = sizeof dfi_export_narrows / sizeof *dfi_export_narrows;')


main()
