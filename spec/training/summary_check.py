"""Reads an event folder back by TensorBoard: python spec/training/summary_check.py FOLDER. Prints what it found, one thing a line."""
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1], size_guidance=dict(scalars=0, histograms=0, images=0, tensors=0))
a.Reload()
for tag in sorted(a.Tags()['scalars']):
    print('scalar', tag, [(e.step, round(e.value, 6)) for e in a.Scalars(tag)])
for tag in sorted(a.Tags()['histograms']):
    h = a.Histograms(tag)[0].histogram_value
    print('histogram', tag, h.num, round(h.min, 6), round(h.max, 6), sum(h.bucket), len(h.bucket_limit))
for tag in sorted(a.Tags()['images']):
    i = a.Images(tag)[0]
    print('image', tag, i.height, i.width, i.encoded_image_string[:4])
for tag in sorted(a.Tags()['tensors']):
    print('tensor', tag, a.Tensors(tag)[0].tensor_proto.string_val)
for tag in sorted(a.Tags()['run_metadata']):
    for d in a.RunMetadata(tag).step_stats.dev_stats:
        print('run', tag, d.device, ' '.join(sorted('%s: %s' % (n.node_name, n.timeline_label) for n in d.node_stats)))
if a.Tags()['graph']:
    print('graph', len(a.Graph().node))
