"""Records small TensorFlow models, as its users save them, into spec/models: python spec/models/record.py

  saver.meta, saver.index, saver.data-…     TF 1: a model with resource and reference variables, a Saver, summaries, an iterator, an
                                            optimizer and initialisers; saver.json has values of it
  v1/       a SavedModel of TF 1 with FusedBatchNormV3
  v2/       a SavedModel of TF 2: a tf.Module with a loop and a cond in a tf.function
  keras/    a SavedModel of Keras layers
  words/    a SavedModel of TF 2 that splits texts and looks words up in tables, one of which a file of the model fills
Values that the models give stand in values.lua.
"""
import os
import shutil
import sys
import tempfile

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1
here = os.path.dirname(os.path.abspath(__file__))
values = {}


def text(v):
  v = np.asarray(v)
  if v.ndim:
    return '{ ' + ', '.join(text(x) for x in v) + ' }'
  return '%.9g' % v


def saver():
  with tf1.Graph().as_default():
    tf1.disable_resource_variables()
    tf1.set_random_seed(1)
    x = tf1.placeholder(tf.float32, [None, 3], name='x')
    data = tf1.data.Dataset.from_tensor_slices(np.arange(6, dtype=np.float32).reshape(2, 3)).batch(1)
    rows = tf1.identity(tf1.data.make_one_shot_iterator(data).get_next(), name='rows')
    w = tf1.get_variable('w', [3, 2], initializer=tf1.glorot_uniform_initializer(seed=3))                       # a reference
    b = tf1.get_variable('b', [2], initializer=tf1.zeros_initializer(), use_resource=True)
    frozen = tf1.get_variable('frozen', initializer=2.0, trainable=False, use_resource=True)
    y = tf1.identity(tf.matmul(x, w) * frozen + b, name='y')
    loss = tf.reduce_sum(y * y, name='loss')
    from_rows = tf1.identity(tf.matmul(rows, w), name='from_rows')
    tf1.summary.scalar('loss', loss)
    tf1.summary.histogram('w', w)
    tf1.summary.merge_all()
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.MomentumOptimizer(0.05, 0.9).minimize(loss, global_step=step, name='train')
    init = tf1.global_variables_initializer()
    s = tf1.Session()
    s.run(init)
    feed = {x: [[1, 2, 3]]}
    for _ in range(2):
      s.run(train, feed)
    out = tf1.train.Saver()
    out.save(s, os.path.join(here, 'saver'), write_state=False)
    values['saver_y'], values['saver_loss'], values['saver_w'] = s.run([y, loss, w], feed)
    s.run(train, feed)
    values['saver_after'] = s.run(y, feed)
    values['saver_step'] = s.run(step)


def v1():
  folder = os.path.join(here, 'v1')
  with tf1.Graph().as_default(), tf1.Session() as s:
    tf1.enable_resource_variables()
    x = tf1.placeholder(tf.float32, [None, 4, 4, 2], name='image')
    k = tf1.get_variable('kernel', [3, 3, 2, 3], initializer=tf1.random_normal_initializer(seed=5))
    y = tf1.nn.conv2d(x, k, 1, 'SAME')
    scale = tf1.get_variable('scale', initializer=np.float32([1, 2, 3]))
    mean = tf1.get_variable('mean', initializer=np.float32([.1, .2, .3]), trainable=False)
    y = tf1.nn.fused_batch_norm(y, scale, tf.zeros([3]), mean=mean, variance=tf.ones([3]) * 2, is_training=False)[0]
    y = tf.nn.relu(y, name='features')
    s.run(tf1.global_variables_initializer())
    tf1.saved_model.simple_save(s, folder, {'image': x}, {'features': y})
    feed = np.linspace(-1, 1, 32, dtype=np.float32).reshape(1, 4, 4, 2)
    values['v1_features'] = s.run(y, {x: feed}).ravel()


class Words(tf.Module):
  def __init__(self, vocabulary):
    with open(vocabulary, 'w') as f:
      f.write('the\nquick\nfox\n')
    file = tf.lookup.TextFileInitializer(vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER)
    self.table = tf.lookup.StaticVocabularyTable(file, 2)
    pairs = tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1, 2], tf.int64), tf.constant([.5, 1.5, 2.5]))
    self.weights = tf.lookup.StaticHashTable(pairs, 0.)

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, 'text')])
  def __call__(self, text):
    words = tf.strings.split(tf.strings.regex_replace(tf.strings.lower(text), '[[:punct:]]', ''))
    ids = tf.ragged.map_flat_values(self.table.lookup, words)
    return {'ids': ids.to_tensor(-1), 'weights': tf.reduce_sum(tf.ragged.map_flat_values(self.weights.lookup, ids), 1)}


def words():
  with tempfile.TemporaryDirectory() as folder:
    m = Words(os.path.join(folder, 'vocabulary.txt'))
    tf.saved_model.save(m, os.path.join(here, 'words'), m.__call__)
  y = m(tf.constant(['The quick, brown fox!', '', 'fox?']))
  values['words_ids'], values['words_weights'] = y['ids'].numpy(), y['weights'].numpy()


class Model(tf.Module):
  def __init__(self):
    super().__init__()
    self.w = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name='w')
    self.scale = tf.Variable(0.5, trainable=False, name='scale')

  @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name='x'), tf.TensorSpec([], tf.int32, name='n')])
  def __call__(self, x, n):
    for _ in tf.range(n):
      x = tf.matmul(x, self.w) * self.scale
      if tf.reduce_sum(x) > 10.0:
        x = x / 2.0
    return {'y': x}


def v2():
  m = Model()
  m.w.assign_add([[0.5, 0.0], [0.0, -0.5]])
  tf.saved_model.save(m, os.path.join(here, 'v2'))
  values['v2_y'] = m(tf.constant([[1.0, 2.0]]), tf.constant(4))['y']


def keras():
  tf.keras.utils.set_random_seed(2)
  m = tf.keras.Sequential([
      tf.keras.layers.Conv1D(4, 2, activation='relu', input_shape=(5, 3)), tf.keras.layers.BatchNormalization(), tf.keras.layers.LSTM(3),
      tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(2, activation='softmax')])
  x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(1, 5, 3)
  m.export(os.path.join(here, 'keras')) if hasattr(m, 'export') else tf.saved_model.save(m, os.path.join(here, 'keras'))
  values['keras_y'] = m(x, training=False)


for folder in ('v1', 'v2', 'keras', 'words'):
  shutil.rmtree(os.path.join(here, folder), ignore_errors=True)
if len(sys.argv) > 1:
  globals()[sys.argv[1]]()
else:
  v2()
  words()
  keras()
  saver()
  v1()
for folder in ('v1', 'v2', 'keras', 'words'):
  for name in ('fingerprint.pb', 'keras_metadata.pb', 'assets'):
    at = os.path.join(here, folder, name)
    if os.path.isdir(at) and folder != 'words':
      shutil.rmtree(at)
    elif os.path.isfile(at):
      os.remove(at)
with open(os.path.join(here, 'values.lua'), 'w') as f:
  f.write('--- What TensorFlow %s gave for the models of spec/models; written by spec/models/record.py.\nreturn {\n' % tf.__version__)
  for k in sorted(values):
    f.write('  %s = %s,\n' % (k, text(values[k])))
  f.write('}\n')
