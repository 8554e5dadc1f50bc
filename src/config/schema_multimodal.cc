// Images, video and sound, which moesh does not do.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpMultimodal = "setting of inputs beside text, which moesh does not do";
constexpr std::string_view kHelpVision = "shape of a vision encoder, which moesh does not have";
constexpr std::string_view kHelpAudio = "shape of an audio encoder, which moesh does not have";

constexpr Key kMultimodal[] = {
    {"use_multimodal", boolean, "false", "", refused, "images and other inputs beside text"},
    {"use_audio", boolean, "false", "", refused, "sound beside text"},
    {"freeze_vision_encoder_params", boolean, "true", "", accepted, kHelpMultimodal},
    {"freeze_audio_encoder_params", boolean, "true", "", accepted, kHelpMultimodal},
    {"dtype_mm", text, "float32", "", accepted, kHelpMultimodal},
    {"default_prompt", text, "", "", accepted, kHelpMultimodal},
    {"train_image_column", texts, "image", "", accepted, kHelpMultimodal},
    {"eval_image_column", texts, "image", "", accepted, kHelpMultimodal},
    {"image_path", text, "", "", accepted, kHelpMultimodal},
    {"video_path", text, "", "", accepted, kHelpMultimodal},
    {"audio_path", text, "", "", accepted, kHelpMultimodal},
    {"image_placeholder", text, "<|image|>", "", accepted, kHelpMultimodal},
    {"video_placeholder", text, "<|video|>", "", accepted, kHelpMultimodal},
    {"audio_placeholder", text, "<|audio|>", "", accepted, kHelpMultimodal},
    {"use_audio_in_video", boolean, "false", "", accepted, kHelpMultimodal},
    {"video_max_grid_t", integer, "null", "", accepted, kHelpMultimodal},
    {"video_max_grid_h", integer, "null", "", accepted, kHelpMultimodal},
    {"video_max_grid_w", integer, "null", "", accepted, kHelpMultimodal},
    {"max_num_images_per_example", integer, "-1", "", accepted, kHelpMultimodal},
    {"vision_output_length", integer, "-1", "", accepted, kHelpMultimodal},
    {"mrope_section", integers, "[24, 20, 20]", "", accepted, kHelpMultimodal},
    {"position_id_per_seconds", integer, "25", "", accepted, kHelpMultimodal},
};

constexpr Key kVision[] = {
    {"remat_policy_for_vit", text, "minimal", "", accepted, kHelpVision},
    {"attention_for_vit", text, "dot_product", "", accepted, kHelpVision},
    {"vision_encoder_block", text, "none", "", accepted, kHelpVision},
    {"image_size_for_vit", nested, "896", "", accepted, kHelpVision},
    {"posemb_type_for_vit", text, "learn", "", accepted, kHelpVision},
    {"hidden_size_for_vit", integer, "1408", "", accepted, kHelpVision},
    {"intermediate_size_for_vit", integer, "5632", "", accepted, kHelpVision},
    {"num_attention_heads_for_vit", integer, "16", "", accepted, kHelpVision},
    {"num_channels_for_vit", integer, "3", "", accepted, kHelpVision},
    {"tile_size_for_vit", integer, "336", "", accepted, kHelpVision},
    {"patch_size_for_vit", integer, "14", "", accepted, kHelpVision},
    {"conv_stride_for_vit", integer, "14", "", accepted, kHelpVision},
    {"num_hidden_layers_for_vit", integer, "34", "", accepted, kHelpVision},
    {"projector_input_dim_for_vit", integer, "4096", "", accepted, kHelpVision},
    {"projector_output_dim_for_vit", integer, "4096", "", accepted, kHelpVision},
    {"rope_theta_for_vit", integer, "10000", "", accepted, kHelpVision},
    {"vision_output_dim_for_vit", integer, "4096", "", accepted, kHelpVision},
    {"pixel_shuffle_ratio_for_vit", real, "0.5", "", accepted, kHelpVision},
    {"projector_dropout_for_vit", real, "0.0", "", accepted, kHelpVision},
    {"spatial_merge_size_for_vit", integer, "2", "", accepted, kHelpVision},
    {"out_hidden_size_for_vit", integer, "512", "", accepted, kHelpVision},
    {"temporal_patch_size_for_vit", integer, "2", "", accepted, kHelpVision},
    {"num_position_embeddings_for_vit", integer, "1024", "", accepted, kHelpVision},
    {"deepstack_visual_indexes_for_vit", integers, "[]", "", accepted, kHelpVision},
    {"vision_projector_type", text, "default", "", accepted, kHelpVision},
    {"vision_connector_num_layers", integer, "2", "", accepted, kHelpVision},
    {"vision_connector_hidden_size", integer, "0", "", accepted, kHelpVision},
    {"vision_connector_activation", text, "gelu", "", accepted, kHelpVision},
    {"vision_connector_use_bias", boolean, "true", "", accepted, kHelpVision},
};

constexpr Key kAudio[] = {
    {"d_model_for_audio", integer, "256", "", accepted, kHelpAudio},
    {"encoder_attention_heads_for_audio", integer, "4", "", accepted, kHelpAudio},
    {"encoder_ffn_dim_for_audio", integer, "512", "", accepted, kHelpAudio},
    {"encoder_layers_for_audio", integer, "2", "", accepted, kHelpAudio},
    {"attention_dropout_for_audio", real, "0.0", "", accepted, kHelpAudio},
    {"activation_dropout_for_audio", real, "0.0", "", accepted, kHelpAudio},
    {"activation_function_for_audio", text, "gelu", "", accepted, kHelpAudio},
    {"num_mel_bins_for_audio", integer, "128", "", accepted, kHelpAudio},
    {"max_source_positions_for_audio", integer, "1500", "", accepted, kHelpAudio},
    {"scale_embedding_for_audio", boolean, "true", "", accepted, kHelpAudio},
    {"n_window_for_audio", integer, "50", "", accepted, kHelpAudio},
    {"n_window_infer_for_audio", integer, "800", "", accepted, kHelpAudio},
    {"conv_chunksize_for_audio", integer, "500", "", accepted, kHelpAudio},
    {"downsample_hidden_size_for_audio", integer, "256", "", accepted, kHelpAudio},
    {"output_dim_for_audio", integer, "512", "", accepted, kHelpAudio},
    {"num_conv_layers_for_audio", integer, "3", "", accepted, kHelpAudio},
    {"max_timescale_for_audio", real, "10000.0", "", accepted, kHelpAudio},
    {"max_sample_len_for_audio", integer, "10000", "", accepted, kHelpAudio},
};

constexpr Topic kMultimodalTopics[] = {
    {"Images, video and sound", kMultimodal},
    {"Vision encoder", kVision},
    {"Audio encoder", kAudio},
};

}  // namespace

std::span<const Topic> multimodal_topics() { return kMultimodalTopics; }

}  // namespace moesh::config
