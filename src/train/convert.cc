#include "train/convert.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>

#include <fmt/core.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/progress.h"
#include "base/system.h"
#include "base/whole_file.h"
#include "config/builtin.h"
#include "config/hugging_face.h"
#include "config/hugging_face_write.h"
#include "config/load.h"
#include "store/checkpoint.h"
#include "store/disk.h"
#include "store/newest.h"
#include "store/saving.h"
#include "train/hugging_face.h"
#include "train/interrupts.h"
#include "train/restore.h"

namespace moesh::train {
namespace {

namespace fs = std::filesystem;
using Ordered = nlohmann::ordered_json;
using store::Block;
using store::Part;

constexpr std::int64_t kMostOfPiece = std::int64_t{1} << 30;  // bytes above which a stack is converted layer by layer

// Makes a folder next to `path`, with a name that nothing has yet.
std::string folder_beside(const std::string& path) {
  constexpr const char* kFix = "name a folder that can be written";
  make_folder(fs::absolute(path).parent_path(), kFix);
  const auto name = [&](int i) { return fmt::format("{}.{}{}.part", path, ::getpid(), std::string(static_cast<std::size_t>(i - 1), '+')); };
  return make_new_folder(name, kFix);
}

// A folder that takes its final name once all of it is written; otherwise it is removed, also if a signal ends the process.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path) : path_(path) {
    if (fs::exists(fs::symlink_status(path))) refuse("it is there already", path, "name another folder, or move it away");
    part_ = folder_beside(path);
  }
  ~NewFolder() {
    if (is_kept_) return;
    std::error_code ignored;
    fs::remove_all(part_, ignored);
    const int signal = interrupts_->asked() ? interrupts_->signal() : 0;
    interrupts_.reset();
    if (signal == 0) return;
    ::signal(signal, SIG_DFL);  // also where a shell that started the process in the background had it ignored
    ::raise(signal);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& part() const { return part_; }
  // To be called between tensors: throws if a signal asks the process to end.
  void go_on() const {
    if (interrupts_->asked()) fail(fmt::format("signal {} ended it", interrupts_->signal()), path_);
  }
  void keep() {
    store::sync_folder(part_);
    store::rename_path(part_, path_);
    store::sync_folder(fs::absolute(path_).parent_path());
    is_kept_ = true;
  }

 private:
  std::string path_, part_;
  bool is_kept_ = false;
  std::optional<Interrupts> interrupts_{std::in_place, ""};
};

// The whole tensor, or one layer at a time if it is a large stack.
std::vector<Block> pieces_of(const Trained& trained, DType dtype) {
  const Block whole = store::whole_block(trained.shape);
  if (trained.layers_dim < 0 || elements(trained.shape) * size_of(dtype) <= kMostOfPiece) return {whole};
  const auto dim = static_cast<std::size_t>(trained.layers_dim);
  std::vector<Block> pieces(static_cast<std::size_t>(trained.shape[dim]), whole);
  for (std::size_t layer = 0; layer < pieces.size(); ++layer)
    pieces[layer][dim] = {static_cast<std::int64_t>(layer), static_cast<std::int64_t>(layer) + 1};
  return pieces;
}

// Memory that holds one piece at a time.
using SharedBytes = std::shared_ptr<std::vector<std::byte>>;

Part room_for(const SharedBytes& room, const Block& block, DType dtype) {
  room->resize(static_cast<std::size_t>(store::elements_of(block) * size_of(dtype)));
  return store::dense_part(block, dtype, room->data());
}

// The settings of a checkpoint that say which model it holds, as key=value.
std::vector<std::string> request_of(const store::Settings& saved) {
  std::vector<std::string> request{"override_model_config=true"};
  for (const config::Topic& topic : config::topics()) {
    if (!topic.is_of_models) continue;
    for (const auto& [key, value] : saved) {
      const bool is_here =
          std::any_of(topic.keys.begin(), topic.keys.end(), [&, &name = key](const config::Key& one) { return one.name == name; });
      if (is_here) request.push_back(key + "=" + value);
    }
  }
  for (const auto& [key, value] : saved) {
    if (key == "model_name" && config::find_builtin("models/" + value + ".yml") != nullptr)
      request.push_back(key + "=" + value);
  }
  return request;
}

std::vector<store::ModelTensor> parameters_of(const store::Index& index) {
  std::vector<store::ModelTensor> all = tensors_of(index);
  std::erase_if(all, [](const store::ModelTensor& tensor) { return partition::is_moment(tensor.name); });
  return all;
}

// The tensors of a checkpoint in the form that Hugging Face's files have.
class Outgoing {
 public:
  Outgoing(store::Checkpoint& checkpoint, const config::Settings& settings, std::optional<DType> dtype,
           backend::Workers& workers)
      : checkpoint_(checkpoint),
        workers_(workers),
        model_(hugging_face_model(settings, config::model_shape(settings))),
        layers_(store::layer_names(parameters_of(checkpoint.index()))) {
    for (auto& [name, tensor] :
         store::hugging_face_tensors(model_, store::shapes_alone(parameters_of(checkpoint.index())))) {
      written_.push_back({name, dtype ? store::StoredType{*dtype} : type_of(tensor), tensor.shape});
      tensors_.push_back(std::move(tensor));
    }
  }

  const std::vector<store::WrittenTensor>& written() const { return written_; }

  const std::byte* numbers(std::size_t index) {
    const store::WrittenTensor& of = written_[index];
    const bool is_scaled = model_.query_factor != 1 && tensors_[index].places.front().row->is_query;
    const Part whole = room_for(room_, store::whole_block(of.shape), is_scaled ? wide_of(of.type.dtype) : of.type.dtype);
    for (const store::HuggingFacePlace& place : tensors_[index].places) {
      const store::Layer& layer = *layers_.find(place.ours);
      const std::vector<Part> parts = store::parts_of_ours(model_, place, whole.data, whole.dtype, whole.strides);
      checkpoint_.read(layer.tensor, store::as_layer(parts, layer), workers_);
    }
    const std::int64_t count = store::elements_of(whole.block);
    if (is_scaled) store::multiply(whole.data, count, whole.dtype, 1 / model_.query_factor);
    if (whole.dtype == DType::float32) store::narrow(whole.data, count, of.type);
    return whole.data;
  }

 private:
  store::StoredType type_of(const store::HuggingFaceTensor& tensor) const {
    const store::Layer& layer = *layers_.find(tensor.places.front().ours);
    return checkpoint_.index().tensors.at(layer.tensor).type_of(layer);
  }

  store::Checkpoint& checkpoint_;
  backend::Workers& workers_;
  store::HuggingFaceModel model_;
  store::LayerNames layers_;
  std::vector<store::WrittenTensor> written_;
  std::vector<store::HuggingFaceTensor> tensors_;
  SharedBytes room_ = std::make_shared<std::vector<std::byte>>();
};

Converted sum_of(const std::vector<store::WrittenTensor>& written) {
  Converted made{static_cast<std::int64_t>(written.size()), 0};
  for (const store::WrittenTensor& tensor : written) made.bytes += elements(tensor.shape) * size_of(tensor.type);
  return made;
}

void write_with_progress(const NewFolder& folder, const std::vector<store::WrittenTensor>& written,
                         const Conversion& conversion, const std::function<const std::byte*(std::size_t)>& numbers) {
  Progress progress("converting, tensor", static_cast<std::int64_t>(written.size()));
  const auto told = [&](std::size_t index) {
    folder.go_on();
    progress.advance(static_cast<std::int64_t>(index), written[index].name);
    return numbers(index);
  };
  store::write_weights(folder.part(), written, told, conversion.most_of_shard);
}

// The description of the text model alone, taken from that of a model that also sees images.
Ordered described_alone(const Ordered& whole, const config::HuggingFacePart& part) {
  Ordered alone = whole.at("text_config");
  for (const char* name : {"tie_word_embeddings", "torch_dtype", "dtype", "bos_token_id", "eos_token_id", "pad_token_id",
                           "transformers_version"}) {
    if (whole.contains(name) && alone.value(name, Ordered()).is_null()) alone[name] = whole[name];
  }
  alone["architectures"] = {part.architecture};
  alone["model_type"] = part.model_type;
  return alone;
}

// The description of the same model with weights of another type, none of them quantised.
std::string config_with_type(const std::string& path, store::StoredType type) {
  Ordered config = Ordered::parse(read_file(path, "the description of a model", 16 << 20, ""));
  if (const auto part = config::hugging_face_part(path)) config = described_alone(config, *part);
  config.erase("quantization_config");
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = name_of(type);
  return config.dump(2) + "\n";
}

// What a checkpoint has to say about the types that its numbers came from: nothing if that is the type it keeps them in, one entry
// if all layers have the same type, else one per layer.
std::vector<store::StoredType> told_types(std::vector<store::StoredType> types, DType kept) {
  const bool are_alike = std::equal(types.begin() + 1, types.end(), types.begin());
  if (are_alike) types.resize(1);
  if (are_alike && types.front() == store::StoredType{kept}) types.clear();
  return types;
}

// Whether a file beside a model's weights belongs to the model whatever the form of its weights: the tokenizer, the template of chats,
// settings, code, and texts such as LICENSE. There are more formats of weights than can be listed.
bool goes_along(const std::string& name) {
  constexpr std::string_view kEndings[] = {".json", ".jinja", ".md", ".model", ".py", ".tiktoken", ".txt"};
  if (name == "config.json" || name.ends_with(".index.json")) return false;  // written with the weights
  const auto is_at_end = [&](std::string_view ending) { return name.ends_with(ending); };
  return name.find('.') == std::string::npos || std::any_of(std::begin(kEndings), std::end(kEndings), is_at_end);
}

void copy_what_goes_along(const std::string& from, const std::string& to) {
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && goes_along(name)) fs::copy_file(entry.path(), fs::path(to) / name);
  }
}

}  // namespace

Converted to_checkpoint(const Conversion& conversion, const config::Settings& settings, const graph::Graph& model,
                        backend::Workers& workers) {
  NewFolder folder(conversion.to);
  const std::vector<Trained> parameters = trained_parameters(model, settings);
  store::HuggingFaceSource source(hugging_face_model(settings, config::model_shape(settings)),
                                  hugging_face_weights(conversion.from), model_tensors(parameters));
  store::About about{MOESH_VERSION, local_time(), 0, 0, "none", 0, {}, given_settings(settings)};
  const auto room = std::make_shared<std::vector<std::byte>>();
  Progress progress("converting, tensor", static_cast<std::int64_t>(parameters.size()));
  std::vector<store::Held> held;
  for (const Trained& trained : parameters) {
    const DType dtype = conversion.dtype.value_or(source.dtype_of(trained.path));
    store::Tensor tensor{dtype, trained.shape, trained.layers_dim, "", {}};
    if (!conversion.dtype) tensor.from = told_types(source.types_of(trained.path), dtype);
    about.parameters += elements(trained.shape);
    const auto bring = [&, dtype, number = static_cast<std::int64_t>(held.size())](const Block& block) {
      folder.go_on();
      progress.advance(number, trained.path);
      const Part part = room_for(room, block, dtype);
      source.fill(trained.path, {part}, workers);
      return part;
    };
    held.push_back({trained.path, std::move(tensor), {}, pieces_of(trained, dtype), bring});
  }
  store::Saving saving(conversion.to, std::move(about), std::move(held), {}, folder.part());
  saving.wait();
  if (!saving.error().empty()) fail(saving.error());
  folder.keep();
  return {static_cast<std::int64_t>(parameters.size()), saving.bytes(), source.left_out()};
}

Converted to_hugging_face(const Conversion& conversion, backend::Workers& workers) {
  std::optional<NewFolder> folder(std::in_place, conversion.to);
  std::optional<Outgoing> outgoing;  // of the checkpoint that is open
  Converted made;
  const auto check = [&](store::Checkpoint& checkpoint) {
    if (outgoing) folder.emplace(conversion.to);  // without what was written of a damaged one
    const config::Settings settings = config::load(request_of(checkpoint.index().about.settings)).settings;
    outgoing.emplace(checkpoint, settings, conversion.dtype, workers);
    const store::StoredType type = outgoing->written().front().type;
    replace_file(folder->part() + "/config.json", config::hugging_face_config_of(settings, std::string(name_of(type))),
                 "choose another folder");
  };
  const auto write = [&](store::Checkpoint&) {
    write_with_progress(*folder, outgoing->written(), conversion, [&](std::size_t index) { return outgoing->numbers(index); });
    made = sum_of(outgoing->written());
    outgoing.reset();
  };
  store::with_newest_whole(conversion.from, check, write);
  folder->keep();
  return made;
}

Converted rewrite_hugging_face(const Conversion& conversion) {
  NewFolder folder(conversion.to);
  const std::string from = config::hugging_face_folder(conversion.from);
  config::hugging_face_keys(conversion.from);  // refuses a model that is not known
  const store::HuggingFaceWeights weights = hugging_face_weights(conversion.from);
  std::vector<store::WrittenTensor> written;
  for (const auto& [name, shape] : weights.shapes())
    written.push_back({name, conversion.dtype ? store::StoredType{*conversion.dtype} : weights.type(name), shape});
  const SharedBytes room = std::make_shared<std::vector<std::byte>>();
  write_with_progress(folder, written, conversion, [&](std::size_t index) {
    const store::WrittenTensor& of = written[index];
    const store::Numbers numbers = weights.read(of.name);
    const Block whole = store::whole_block(of.shape);
    const Part to = room_for(room, whole, of.type.dtype);
    store::copy_shared({whole, numbers.dtype, numbers.data, numbers.strides}, to);
    if (of.type == store::kFloat16) store::narrow(to.data, store::elements_of(whole), of.type);
    weights.forget(of.name);
    return static_cast<const std::byte*>(to.data);
  });
  replace_file(folder.part() + "/config.json",
               config_with_type(config::hugging_face_config(conversion.from), written.front().type),
               "choose another folder");
  copy_what_goes_along(from, folder.part());
  folder.keep();
  Converted made = sum_of(written);
  made.left_out = weights.left_out();
  if (const auto part = config::hugging_face_part(conversion.from)) made.architecture = part->architecture;
  return made;
}

}  // namespace moesh::train
