#include "optim/packed_views.h"

namespace escalier::optim {

void PackedViews::add(TensorView view) {
    views_.push_back(flat(view));
    elements_ += view.elements();
}

void PackedViews::pack(const OpContext& context, const kernels::Ops& ops, TensorView staging) const {
    std::int64_t begin = 0;
    for (const TensorView& view : views_) {
        ops.copy(context, staging.rows(begin, view.elements()), view);
        begin += view.elements();
    }
}

void PackedViews::unpack(const OpContext& context, const kernels::Ops& ops, TensorView staging) const {
    std::int64_t begin = 0;
    for (const TensorView& view : views_) {
        ops.copy(context, view, staging.rows(begin, view.elements()));
        begin += view.elements();
    }
}

}  // namespace escalier::optim
