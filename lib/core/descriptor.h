// An open file, closed with its scope.
#pragma once

#include <unistd.h>

namespace escalier {

class Descriptor {
 public:
    // number: what open() returned; negative: none.
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number() const { return number_; }

 private:
    int number_;
};

}  // namespace escalier
