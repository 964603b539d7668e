// `escalier plan --search`: the fastest ways to run a job on so many ranks, and why the job's own is not
// among them.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "plan/search.h"

namespace escalier::apps {

struct SearchPage {
    plan::SearchResult result;
    double seconds = 0;  // that the search took
    // The job as its spec says, priced alike, whether it fits or not.
    plan::Prediction own;
    double own_bytes = 0;
    config::JobSpec own_spec;
};

// problem.spec: resolved for problem.ranks. Leaves own_bytes to the caller, who knows them to the byte.
SearchPage run_search(const plan::SearchProblem& problem);

std::string search_page(const SearchPage& page, const plan::SearchProblem& problem);
nlohmann::ordered_json search_json(const SearchPage& page, const plan::SearchProblem& problem);

}  // namespace escalier::apps
