#include "foreign/model_facts.h"

#include "config/load.h"
#include "config/model_shape.h"

namespace moesh::foreign {

ModelFacts facts_of(const std::string& model_name) {
  const config::Settings settings = config::load({"model_name=" + model_name}).settings;
  const std::int64_t experts = settings.integer("num_experts");
  return {settings.integer("base_num_decoder_layers"), settings.integer("first_num_dense_layers"), experts > 1 ? experts : 0,
          settings.text("attention_type") == "mla", config::model_shape(settings).cycle};
}

}  // namespace moesh::foreign
