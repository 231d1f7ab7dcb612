"""Runs exported graphs in TensorFlow and prints what they gave, as a Lua table.

  python3 spec/export_check.py FOLDER | gzip -9n > spec/tensorflow/export.lua.gz

The folder is what spec/exchange/export_spec.lua leaves when DFLOW_EXPORT_FOLDER names it. Of each NAME.txt, lines `fetch TENSOR`, `gradient TENSOR`,
`feed TENSOR KEY`, `by TENSOR` and `step OPERATION`: NAME.pb is imported, `init` run if there is one, then the step, and all of fetch and gradient run with the arrays of
NAME.npz; NAME.meta is imported with its contexts, and TensorFlow differentiates the sum of the first fetch by each `by`.
"""
import glob
import os
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1
tf1.logging.set_verbosity('ERROR')
tf1.disable_v2_behavior()


def number(v):
  if isinstance(v, (bool, np.bool_)):
    return 'true' if v else 'false'
  if isinstance(v, (int, np.integer)):
    return str(int(v))
  v = float(v)
  if v != v:
    return '0/0'
  return ('-' if v < 0 else '') + 'math.huge' if v in (np.inf, -np.inf) else '%.9g' % v


def table(v):
  v = np.asarray(v)
  return '{ dtype = "%s", shape = { %s }, %s }' % (
      v.dtype.name, ', '.join(map(str, v.shape)), ', '.join(number(x) for x in v.ravel()))


def run(graph, fetches, feeds, steps):
  names = {o.name for o in graph.get_operations()}
  feeds = {k: v for k, v in feeds.items() if k.split(':')[0] in names}
  with tf1.Session(graph=graph) as s:
    if 'init' in names:
      s.run('init')
    for step in steps:
      s.run(step, feeds)
    return s.run(fetches, feeds)


def check(base):
  lines = [line.split() for line in open(base + '.txt')]
  arrays = np.load(base + '.npz')
  get = lambda word: [w[1] for w in lines if w[0] == word]  # noqa: E731
  feeds = {w[1]: arrays[w[2]] for w in lines if w[0] == 'feed'}
  with tf1.Graph().as_default() as g:
    d = tf1.GraphDef()
    d.ParseFromString(open(base + '.pb', 'rb').read())
    tf1.import_graph_def(d, name='')
    values = run(g, get('fetch') + get('gradient'), feeds, get('step'))
  with tf1.Graph().as_default() as g:
    tf1.train.import_meta_graph(base + '.meta')
    there = {o.name + ':0' for o in g.get_operations()}
    xs = [g.get_tensor_by_name(n) for n in get('by') if n in there]
    slopes = tf1.gradients(g.get_tensor_by_name(get('fetch')[0]), xs) if xs else []
    slopes = dict(zip((x.name for x in xs), slopes))
    slopes = [tf1.zeros_like(feeds[n]) if slopes.get(n) is None else tf.convert_to_tensor(slopes[n]) for n in get('by')]
    again = run(g, get('fetch') + slopes, feeds, get('step'))
  n = len(get('fetch'))
  for a, b in zip(values[:n], again[:n]):
    np.testing.assert_array_equal(a, b)
  return values, again[n:]


print('--- What TensorFlow %s gave for the programs of spec/exchange/export_spec.lua; written by spec/export_check.py.' % tf.__version__)
print('return {')
for path in sorted(glob.glob(sys.argv[1] + '/*.txt')):
  name = os.path.basename(path)[:-4]
  try:
    values, slopes = check(path[:-4])
    print("  ['%s'] = {\n    values = { %s },\n    slopes = { %s },\n  }," % (
        name, ',\n      '.join(map(table, values)), ',\n      '.join(map(table, slopes))))
  except Exception as e:  # what TensorFlow says goes to the spec
    print("  ['%s'] = { failed = [==[%s: %s]==] }," % (name, type(e).__name__, str(e)[:600]))
print('}')
