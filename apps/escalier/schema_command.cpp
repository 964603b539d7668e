#include "schema_command.h"

#include <iostream>

#include "config/schema.h"

namespace escalier::apps {

void add_schema_command(CLI::App& app, std::function<int()>& action) {
    CLI::App* command = app.add_subcommand("schema", "print the JSON Schema of the job spec, for editors");
    command->callback([&action] {
        action = [] {
            std::cout << config::json_schema().dump(2) << "\n";
            return 0;
        };
    });
}

}  // namespace escalier::apps
