// The tensors of two grids ("sides", 0 and 1) that train the same model, under global names: who holds which
// part of them, and pieces of them brought together.
//
// fetch() adds up a few rows over the world, each element from the one rank that owns it, so that the sum is
// exact. Whole tensors never lie anywhere, but where all of them together are small: then one sum over the
// world brings them together, for small sums cost a message each.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "parallel/grid.h"

namespace escalier::train {

enum class Quantity {
    activation,
    activation_gradient,
    gradient,
    first_moment,
    second_moment,
    weight,
};
inline constexpr int quantities = 6;
const char* quantity_name(Quantity quantity);  // "gradient"
inline bool is_stream(Quantity quantity) {     // of the residual stream
    return quantity == Quantity::activation || quantity == Quantity::activation_gradient;
}

struct Rect {  // rows and columns of a global tensor; a vector has one column
    std::int64_t row = 0, column = 0, rows = 0, columns = 0;
    bool operator==(const Rect&) const = default;
};

// What one rank holds of a tensor.
struct SidePiece {
    Quantity quantity;
    std::int64_t order;  // within its quantity, the same on every grid
    std::string name;
    Rect box;
    TensorView view;
    device::Device* device = nullptr;  // where `view` lies; null: in host memory
    // What another stage has too, and has first: the last stage's copy of a tied table, a point of the
    // residual stream as it was received.
    bool stage_copy = false;
};

struct Holder {
    int world_rank;
    parallel::GridPlace place;
    Rect box;
    bool stage_copy;
    bool owner;  // the first one of its box
};

// A tensor and who holds it.
struct TensorEntry {
    Quantity quantity;
    std::int64_t order;
    std::string name;
    Rect hull;  // of all boxes
    std::array<std::vector<Holder>, 2> holders;
    std::array<bool, 2> whole = {true, true};  // the owners' boxes fill the hull, without overlap
};

class SideTensors {
 public:
    using Pieces = std::vector<SidePiece>;

    // Collective over the world. pieces, places: of this rank; a rank outside a side has none.
    SideTensors(comm::Communicator& world, std::array<Pieces, 2> pieces,
                const std::array<parallel::GridPlace, 2>& places);

    const std::vector<TensorEntry>& entries() const { return entries_; }

    // Which holders' values are added up.
    enum class Terms {
        owners,
        tensor_ranks,  // all holders of one replica and stage: copies of a box count once each
        replicas,      // for each box its first holder in every data-parallel replica
        copies,        // for each box its holders in both copies of the model (DualPipe)
        tied,          // the owners, and the stage copies of the same replica
        received       // for each box its first stage copy
    };
    // Rows [first, first + rows) of the hull, [rows, hull.columns], on all ranks. Collective.
    void fetch(std::size_t entry, int side, std::int64_t first, std::int64_t rows, Terms terms,
               std::vector<float>& out);
    // The largest difference of each holder from the owner of its box, [side][entry][holder]; bits that
    // differ without a difference in value count as the smallest number. Collective.
    using Deviations = std::array<std::vector<std::vector<double>>, 2>;
    Deviations deviations();

    // Side 1 goes on with side 0's weights and moments, in fp32; forms of a weight that products read stay
    // as they are. Collective.
    void hand_over();

    // How many rows of an entry to fetch at once.
    std::int64_t block_rows(std::size_t entry) const;

 private:
    struct Local {
        std::size_t entry;
        int side;
        std::size_t holder;
        SidePiece piece;
    };

    void fetch_all_if_small();
    std::string own_text(const std::array<Pieces, 2>& pieces,
                         const std::array<parallel::GridPlace, 2>& places) const;
    void take_in(const std::string& text, int world_rank);
    void find_owners();
    void add_rows(const Local& local, std::int64_t first, std::int64_t rows, std::vector<float>& out) const;
    bool counts(const Local& local, Terms terms) const;
    void write_rows(const Local& local, std::int64_t first, std::int64_t rows,
                    const std::vector<float>& whole) const;
    double deviation(const Local& local, std::int64_t first, std::int64_t rows,
                     const std::vector<float>& whole) const;

    comm::Communicator& world_;
    std::vector<TensorEntry> entries_;  // by quantity, order and name
    std::vector<Local> locals_;
    std::array<std::vector<std::vector<float>>, 2> small_;  // [side][entry], of the owners; or empty
};

}  // namespace escalier::train
