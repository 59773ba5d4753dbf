// many_instances.cpp - much DWARF from little source: COUNT instances of what the standard
// library's templates make of one type.  All have internal linkage, so that a library may consist
// of many copies of this one object.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace
{

template <int N> struct item {
    int value[N % 7 + 1];
    bool operator<(const item &other) const
    {
        return value[0] < other.value[0];
    }
};

template <int N> int work(int seed)
{
    std::map<item<N>, std::string> names;
    std::vector<item<N>> items(static_cast<std::size_t>(seed));

    for (auto &each : items)
        names[each] = std::to_string(each.value[0] + N);
    std::sort(items.begin(), items.end());
    std::function<int(const item<N> &)> get = [&](const item<N> &i) { return i.value[0] + seed; };
    auto shared = std::make_shared<item<N>>(items.front());
    return get(*shared) + static_cast<int>(names.size());
}

template <int N> struct all {
    static int run(int seed)
    {
        return work<N>(seed) + all<N - 1>::run(seed);
    }
};

template <> struct all<0> {
    static int run(int seed)
    {
        return seed;
    }
};

__attribute__((used)) int (*start)(int) = all<COUNT>::run;

} // namespace
