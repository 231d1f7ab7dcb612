"""Asks ONNX and ONNX Runtime about the models of a folder: NAME.onnx, fed NAME.in.npz, is expected to give NAME.out.npz.

A line for each model: `NAME ok`, or `NAME` and what was wrong. The first line is `ready`, or why nothing can be asked.
"""
import os
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    print(missing)
    sys.exit()
print("ready", flush=True)

options = onnxruntime.SessionOptions()
options.log_severity_level = 3
options.intra_op_num_threads = 1


def check(base):
    onnx.checker.check_model(base + ".onnx", full_check=True)
    session = onnxruntime.InferenceSession(base + ".onnx", options, providers=["CPUExecutionProvider"])
    wanted = np.load(base + ".out.npz")
    names = [o.name for o in session.get_outputs()]
    if sorted(names) != sorted(wanted.files):
        return "gives %s, expected %s" % (names, wanted.files)
    feeds = dict(np.load(base + ".in.npz")) if os.path.exists(base + ".in.npz") else {}
    for name, found in zip(names, session.run(names, feeds)):
        expected = wanted[name]
        if found.dtype != expected.dtype or found.shape != expected.shape:
            return "%s is %s%s, expected %s%s" % (name, found.dtype, found.shape, expected.dtype, expected.shape)
        if not np.allclose(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True):
            return "%s is %s, expected %s" % (name, found, expected)
    return "ok"


folder = sys.argv[1]
for file in sorted(os.listdir(folder)):
    if file.endswith(".onnx"):
        name = file[:-5]
        try:
            said = check(os.path.join(folder, name))
        except Exception as e:
            said = str(e)
        print(name, " ".join(said.split()), flush=True)
