"""Writes the files of keras_spec.lua: python3 spec/training/keras_weights.py, with TensorFlow 2.15 (Keras 2.15, h5py 3)."""
import gzip, os, tempfile, zipfile
import h5py, keras, numpy as np

here = os.path.dirname(os.path.abspath(__file__))


def keep(path, name):
    with open(path, 'rb') as f, open(os.path.join(here, name + '.gz'), 'wb') as to:
        to.write(gzip.compress(f.read(), 9, mtime=0))


def types(path):
    with h5py.File(path, 'w') as f:
        f['floats/half'] = np.array([1.5, -2, 65504], '<f2')
        f['floats/single'] = np.array([[1.5, -2, 3.25], [0, 0.5, -7]], '<f4')
        f['floats/big'] = np.array([1.5, -2.25], '>f8')
        f['ints/small'] = np.array([-1, 2, 127], 'i1')
        f['ints/big'] = np.array([258, -3], '>i4')
        f['ints/long'] = np.array(1 << 40, '<i8')
        f['ints/bytes'] = np.array([0, 255], 'u1')
        f['flag'] = np.array([True, False, True])
        f['empty'] = np.zeros((0, 3), '<f4')
        f.create_dataset('packed', data=np.arange(600, dtype='<f4').reshape(20, 30), chunks=(10, 30), compression='gzip', shuffle=True, fletcher32=True)
        f['not/text'] = 'a string'
        f['not/pair'] = np.array([(1, 2.5)], [('a', '<i4'), ('b', '<f8')])
        f['not/deep'] = np.zeros((1,) * 9, '<f4')
        f.create_dataset('not/outside', shape=(4,), dtype='<f4', external=[('/etc/passwd', 0, 16)])
        parts = h5py.VirtualLayout(shape=(2,), dtype='<f4')
        parts[:] = h5py.VirtualSource('other.h5', 'x', shape=(2,))
        f.create_virtual_dataset('not/virtual', parts)
        f.create_dataset('not/huge', shape=(1 << 40,), dtype='<f4', chunks=(1 << 20,))
        f['link'] = h5py.SoftLink('/flag')
        f['elsewhere'] = h5py.ExternalLink('other.h5', '/x')


def models(folder):
    m = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2, name='dense'), keras.layers.Dense(1, name='out')])
    m.layers[0].set_weights([np.array([[1, 2], [3, 4], [5, 6]], 'f4'), np.array([.5, -.5], 'f4')])
    m.layers[1].set_weights([np.array([[7], [8]], 'f4'), np.array([.25], 'f4')])
    for name in 'model.h5', 'model.weights.h5', 'model.keras':
        path = os.path.join(folder, name)
        m.save_weights(path) if 'weights' in name else m.save(path)
        keep(path, name)
    with zipfile.ZipFile(os.path.join(folder, 'model.keras')) as stored, \
         zipfile.ZipFile(os.path.join(here, 'deflated.keras'), 'w', zipfile.ZIP_DEFLATED) as to:
        for member in stored.namelist():
            to.writestr(zipfile.ZipInfo(member), stored.read(member), zipfile.ZIP_DEFLATED)


with tempfile.TemporaryDirectory() as folder:
    types(os.path.join(folder, 'types.h5'))
    keep(os.path.join(folder, 'types.h5'), 'types.h5')
    models(folder)
