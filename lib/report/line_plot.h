// Lines over numbers as a picture: one SVG element without scripts, styles and fonts of its own, to be a file
// or a part of an HTML page.
#pragma once

#include <string>
#include <vector>

namespace escalier::report {

struct PlotPoint {
    double x = 0, y = 0;
};

struct PlotLine {
    std::string label;              // in the legend; empty: not there
    std::vector<PlotPoint> points;  // by x; one that is not finite interrupts the line
    int colour = 0;                 // place in the palette, which repeats
    bool dashed = false;
    int marker = -1;  // a shape on every point, of the shapes in turn; -1: none
};

struct LinePlot {
    std::string title, note;  // note: a second line under the title, may be empty
    std::string x_label, y_label;
    std::vector<PlotLine> lines;
    bool doubling_x = false;  // every doubling of x is equally wide (all x > 0)
    bool percent_y = false;   // y are shares of 1
    bool from_zero = false;   // y begins at 0
};

// Lines of more points than there are pixels keep the lowest and the highest of each pixel's points.
std::string to_svg(const LinePlot& plot);

}  // namespace escalier::report
