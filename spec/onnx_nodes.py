"""The standard's own tests of its operators as files, for spec/onnx_nodes.lua: python spec/onnx_nodes.py FOLDER

Each case of the installed `onnx` package becomes FOLDER/NAME with model.onnx and test_data_set_0/{input,output}_N.pb. The package
carried these files up to 1.15; later ones carry the code that makes them.
"""
import os
import sys

import numpy
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases


def message(value, info):
    """The value as what the file of that input or output holds."""
    if info.type.HasField('sequence_type'):
        return numpy_helper.from_list(value, info.name)
    if info.type.HasField('optional_type'):
        return numpy_helper.from_optional(value, info.name)
    return value if isinstance(value, TensorProto) else numpy_helper.from_array(numpy.asarray(value), info.name)


def write(case, folder):
    data = os.path.join(folder, case.name, 'test_data_set_0')
    os.makedirs(data, exist_ok=True)
    with open(os.path.join(folder, case.name, 'model.onnx'), 'wb') as f:
        f.write(case.model.SerializeToString())
    inputs, outputs = case.data_sets[0]
    for kind, values, infos in (('input', inputs, case.model.graph.input), ('output', outputs, case.model.graph.output)):
        for i, (value, info) in enumerate(zip(values, infos)):
            with open(os.path.join(data, '%s_%d.pb' % (kind, i)), 'wb') as f:
                f.write(message(value, info).SerializeToString())


failed = 0
for one in collect_testcases():
    try:
        write(one, sys.argv[1])
    except Exception as e:      # a case of a later version than what writes it
        failed += 1
        print('%s: %s' % (one.name, e))
print('%d cases failed' % failed)
