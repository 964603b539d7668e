// Schedules as text and CSV.
#pragma once

#include "schedule/csv.h"
#include "schedule/render_text.h"
