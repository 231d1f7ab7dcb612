"""Runs what spec/differential/write.lua exported, in TensorFlow and in ONNX Runtime, whichever this Python has: check.py FOLDER.

Prints a line for each program whose values differ from dflow's, or which does not run; the last line counts. Exit 1 if there were any,
or nothing that agrees.
A kernel that the peer does not have for a dtype says nothing about what was exported: those are counted apart.
"""
import glob
import os
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np  # noqa: E402

try:
  import tensorflow as tf
  tf1 = tf.compat.v1
  tf1.logging.set_verbosity('ERROR')
  tf1.disable_v2_behavior()
except ImportError:
  tf = None
try:
  import onnx
  import onnxruntime
  options = onnxruntime.SessionOptions()
  options.log_severity_level = 4
  options.intra_op_num_threads = 1
except ImportError:
  onnxruntime = None
LACKS = ('No OpKernel was registered to support', 'NOT_IMPLEMENTED : Could not find an implementation for', 'No WhereOp available',
         'The input data type is not supported')


def tensorflow(base, feeds, fetches):
  with tf1.Graph().as_default() as g:
    d = tf1.GraphDef()
    d.ParseFromString(open(base + '.pb', 'rb').read())
    tf1.import_graph_def(d, name='')
    there = {o.name for o in g.get_operations()}
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with tf1.Session(graph=g, config=config) as s:
      if 'init' in there:
        s.run('init')
      return s.run(list(fetches), {k: v for k, v in feeds.items() if k.split(':')[0] in there})


def onnx_runtime(base, feeds, fetches):
  onnx.checker.check_model(base + '.onnx', full_check=True)
  session = onnxruntime.InferenceSession(base + '.onnx', options, providers=['CPUExecutionProvider'])
  wanted = {i.name for i in session.get_inputs()}
  feeds = {k[:-2] if k.endswith(':0') else k: v for k, v in feeds.items()}
  return session.run(list(fetches.values()), {k: v for k, v in feeds.items() if k in wanted})


def difference(found, expected, tolerance):
  found = np.asarray(found)
  if expected.dtype == object:
    found = np.array([v.encode() if isinstance(v, str) else v for v in found.ravel()], object).reshape(found.shape)
  if found.dtype != expected.dtype:
    return 'dtype %s, dflow has %s' % (found.dtype, expected.dtype)
  if found.shape != expected.shape:
    return 'shape %s, dflow has %s' % (found.shape, expected.shape)
  if found.dtype.kind in 'fc':
    near = np.isclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
  else:
    near = found == expected
  if not near.all():
    return '%s, dflow has %s (%d of %d)' % (found[~near].ravel()[:3], expected[~near].ravel()[:3], (~near).sum(), near.size)
  return None


counts = dict(right=0, wrong=0, lacking=0, refused=0)
for path in sorted(glob.glob(sys.argv[1] + '/*.txt')):
  base = path[:-4]
  lines = [line.rstrip('\n').split(' ') for line in open(path)]
  arrays = dict(np.load(base + '.npz'))
  for w in lines:
    if w[0] == 'strings':
      values = [b'' if v == '-' else bytes.fromhex(v) for v in w[3:]]
      arrays[w[1]] = np.array(values, object).reshape([] if w[2] == '-' else [int(d) for d in w[2].split(',')])
  feeds = {w[1]: arrays[w[2]] for w in lines if w[0] == 'feed'}
  fetches = {w[1]: w[2] for w in lines if w[0] == 'fetch'}
  text = ' '.join(next(w for w in lines if w[0] == 'text')[1:])
  tolerance = float(next(w for w in lines if w[0] == 'tolerance')[1])
  counts['refused'] += sum(w[0] == 'refused' for w in lines)
  for peer, there, file in (tensorflow, tf, '.pb'), (onnx_runtime, onnxruntime, '.onnx'):
    if not there or not os.path.exists(base + file):
      continue
    said = None
    try:
      results = peer(base, feeds, fetches)
      if len(results) != len(fetches):
        said = '%d values, dflow has %d' % (len(results), len(fetches))
      for found, key in zip(results, fetches.values()):
        said = said or difference(found, arrays[key], tolerance)
        if said and not said.startswith(key):
          said = key + ': ' + said
    except Exception as e:  # what the peer says is the finding
      said = type(e).__name__ + ': ' + str(e)[:400]
    if said is None:
      counts['right'] += 1
    elif any(word in said for word in LACKS):
      counts['lacking'] += 1
      if os.environ.get('VERBOSE'):
        print(os.path.basename(base), peer.__name__, 'LACKS', ' '.join(said.split()), '|', text[:200], flush=True)
    else:
      counts['wrong'] += 1
      print(os.path.basename(base), peer.__name__, ' '.join(said.split()), '|', text[:200], flush=True)
print('%(right)d agree, %(wrong)d differ, %(refused)d exports were refused, %(lacking)d have no kernel in the peer' % counts)
sys.exit(counts['wrong'] > 0 or counts['right'] == 0)
