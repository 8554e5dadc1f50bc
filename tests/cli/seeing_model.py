"""Makes a tiny model that sees images, with random weights, and records what transformers computes of text: seeing_model.py KIND FOLDER DTYPE."""
import json
import sys

import torch
import transformers
from safetensors.torch import save_file

kind, folder, dtype = sys.argv[1], sys.argv[2], getattr(torch, sys.argv[3])
torch.manual_seed(5)
text = dict(vocab_size=64, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            max_position_embeddings=128, bos_token_id=None, eos_token_id=None, pad_token_id=None)
vision = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, image_size=16, patch_size=4)
if kind == "llama4":
    model_class = transformers.Llama4ForConditionalGeneration
    text |= dict(intermediate_size=24, intermediate_size_mlp=40, num_local_experts=4, interleave_moe_layer_step=2, attention_chunk_size=8)
    vision |= dict(vision_output_dim=24, projector_input_dim=24, projector_output_dim=24)
elif kind == "gemma4":
    model_class = transformers.Gemma4ForConditionalGeneration
    text |= dict(intermediate_size=48, sliding_window=6, global_head_dim=16, num_global_key_value_heads=1, attention_k_eq_v=True,
                 hidden_size_per_layer_input=0, vocab_size_per_layer_input=64, enable_moe_block=True, num_experts=4, top_k_experts=2,
                 moe_intermediate_size=16, layer_types=["sliding_attention", "full_attention"] * 2)
    vision |= dict(head_dim=8, global_head_dim=8, num_key_value_heads=2, pooling_kernel_size=1, position_embedding_size=16)
    vision.pop("image_size")
    text["pad_token_id"] = 0
elif kind == "qwen3_5_moe":
    model_class = transformers.Qwen3_5MoeForConditionalGeneration
    text |= dict(linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=8, linear_value_head_dim=12, num_experts=4,
                 num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24, rms_norm_eps=1e-3, head_dim=16,
                 rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25, mrope_section=[1, 1, 0]))
    vision = dict(hidden_size=16, depth=1, num_heads=2, intermediate_size=64, patch_size=4, out_hidden_size=32, num_position_embeddings=16)
else:
    model_class = transformers.Gemma3ForConditionalGeneration
    text |= dict(intermediate_size=48, sliding_window=6, query_pre_attn_scalar=12, sliding_window_pattern=2)
tokens = {"image_token_id": 63, "video_token_id": 62, "audio_token_id": 61} if kind == "gemma4" else {"image_token_index": 63}
config = model_class.config_class(text_config=text, vision_config=vision, **tokens)
config._attn_implementation = "eager"
model = model_class(config).eval()
with torch.no_grad():
    for name, weight in model.named_parameters():
        is_norm = "norm" in name
        weight.copy_(torch.randn(weight.shape) * (0.15 if is_norm else weight.shape[-1] ** -0.5) + is_norm)
        weight.copy_(weight.to(dtype).float())
ids = torch.randint(0, 60, (2, 24))
made = model(input_ids=ids, labels=ids)
made.loss.backward()
gradients = {name.replace("language_model.", ""): weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
norms = {name: gradient.norm().item() for name, gradient in gradients.items()}
expected = {"input_ids": ids, "logits": made.logits.detach().contiguous(), "loss": made.loss.detach()}
expected["grad_norm"] = torch.tensor(sum(norm * norm for norm in norms.values()) ** 0.5)
expected |= {"grad." + name: gradient for name, gradient in gradients.items()}
save_file(expected, folder + "/expect.safetensors")
with open(folder + "/expect.json", "w") as out:
    json.dump({"grad_norms": norms}, out)
model.to(dtype).save_pretrained(folder)
if kind == "qwen3_5_moe":  # whose published files have all experts of a layer in one tensor, and a module that predicts tokens further ahead
    tensors = {name: weight.contiguous() for name, weight in model.state_dict().items()}
    save_file(tensors | {"mtp.fc.weight": torch.ones(32, 64, dtype=dtype)}, folder + "/model.safetensors", metadata={"format": "pt"})
