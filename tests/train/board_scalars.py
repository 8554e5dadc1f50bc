"""Prints what TensorBoard's own reader finds in a folder: a line a tag with its steps and last value, and the other kinds by name."""
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"tensors": 0, "histograms": 0, "images": 0, "scalars": 0}).Reload()
tags = events.Tags()
for tag in sorted(tags["scalars"]):
    found = events.Scalars(tag)
    print(tag, [one.step for one in found], f"{found[-1].value:.6g}")
for kind in ("histograms", "images", "tensors"):
    print(kind, *sorted(tags[kind]))
for tag in tags["images"]:
    image = events.Images(tag)[-1]
    print("image", image.width, "x", image.height)
