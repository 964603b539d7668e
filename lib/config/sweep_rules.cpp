#include "config/sweep_rules.h"

#include <algorithm>

#include "config/rule_book.h"

namespace escalier::config {

namespace {

class SweepRules : RuleBook {
 public:
    SweepRules(Job& job, Problems& problems) : RuleBook(job, problems) {}

    void run() {
        const SweepConfig& sweep = spec_.sweep;
        for (std::size_t i = 0; i < sweep.exclude.size(); ++i)
            for (const SweepSetting& setting : sweep.exclude[i]) require_taken(i, setting);
    }

 private:
    void require_taken(std::size_t entry, const SweepSetting& setting) {
        const std::string where = "entry " + text(static_cast<std::int64_t>(entry)) + " has " + setting.key;
        std::string known;
        for (const SweepAxis& axis : spec_.sweep.axes) {
            known += (known.empty() ? "" : ", ") + axis.key;
            if (axis.key != setting.key) continue;
            std::string values;
            for (const std::string& value : axis.values) values += (values.empty() ? "" : ", ") + value;
            require(std::find(axis.values.begin(), axis.values.end(), setting.value) != axis.values.end(),
                    {"sweep.exclude", "sweep.axes"},
                    where + ": " + setting.value + ", a value that its axis does not take: " + values);
            return;
        }
        require(false, {"sweep.exclude", "sweep.axes"},
                where + ", which is no axis" + (known.empty() ? "" : "; axes: " + known));
    }
};

}  // namespace

void apply_sweep_rules(Job& job, Problems& problems) {
    SweepRules(job, problems).run();
}

}  // namespace escalier::config
