#include "schema_command.h"

#include <iostream>
#include <memory>

#include "config/schema.h"

namespace escalier::apps {

void add_schema_command(CLI::App& app, std::function<int()>& action) {
    auto text = std::make_shared<bool>(false);
    CLI::App* command = app.add_subcommand("schema", "print the JSON Schema of the job spec, for editors");
    command->add_flag("--text", *text, "list every key, its default and its meaning instead");
    command->callback([&action, text] {
        action = [text] {
            std::cout << (*text ? config::key_reference() : config::json_schema().dump(2) + "\n");
            return 0;
        };
    });
}

}  // namespace escalier::apps
