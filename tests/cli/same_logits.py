"""Loads two Hugging Face folders with transformers and prints the largest difference of their logits: same_logits.py A B."""
import sys

import torch
from transformers import AutoModelForCausalLM

torch.manual_seed(0)
models = [AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval() for path in sys.argv[1:3]]
ids = torch.randint(0, models[0].config.get_text_config().vocab_size, (2, 16))
with torch.no_grad():
    first, second = (model(input_ids=ids).logits for model in models)
print(f"{(first - second).abs().max().item():.3g} of {first.abs().max().item():.3g}")
