// oneTBB: `TBBSubject WORKLOAD COUNT` prints two numbers, as the other subjects do.
#include <oneapi/tbb.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

using Clock = std::chrono::steady_clock;
using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

static double nanoseconds(Clock::time_point start) { return std::chrono::duration<double, std::nano>(Clock::now() - start).count(); }

static void nothing(const tbb::flow::continue_msg &) {}

static double flood(int count) {
    tbb::task_group group;
    auto start = Clock::now();
    for (int i = 0; i < count; i++) group.run([] {});
    group.wait();
    return nanoseconds(start) / count;
}

// Measures only the running, not the construction.
static double chain(int count) {
    tbb::flow::graph graph;
    std::vector<std::unique_ptr<Node>> nodes;
    for (int i = 0; i < count; i++) {
        nodes.push_back(std::make_unique<Node>(graph, nothing));
        if (i > 0) tbb::flow::make_edge(*nodes[i - 1], *nodes[i]);
    }
    auto start = Clock::now();
    nodes[0]->try_put(tbb::flow::continue_msg());
    graph.wait_for_all();
    return nanoseconds(start) / count;
}

static void build_and_run_fan(int count) {
    tbb::flow::graph graph;
    Node first(graph, nothing), last(graph, nothing);
    std::vector<std::unique_ptr<Node>> nodes;
    for (int i = 0; i < count; i++) {
        nodes.push_back(std::make_unique<Node>(graph, nothing));
        tbb::flow::make_edge(first, *nodes.back());
        tbb::flow::make_edge(*nodes.back(), last);
    }
    first.try_put(tbb::flow::continue_msg());
    graph.wait_for_all();
}

static void build_and_run_layers(int layers, int width) {
    tbb::flow::graph graph;
    tbb::flow::broadcast_node<tbb::flow::continue_msg> source(graph);
    std::vector<std::unique_ptr<Node>> nodes;
    for (int layer = 0; layer < layers; layer++) {
        for (int i = 0; i < width; i++) {
            nodes.push_back(std::make_unique<Node>(graph, nothing));
            if (layer == 0) {
                tbb::flow::make_edge(source, *nodes.back());
                continue;
            }
            size_t before = (size_t)(layer - 1) * width;
            for (int other : {i, (i + 1) % width, (i + 7) % width}) tbb::flow::make_edge(*nodes[before + other], *nodes.back());
        }
    }
    source.try_put(tbb::flow::continue_msg());
    graph.wait_for_all();
}

// These two also measure the destruction of the graph: the other subjects have released their operations when they stop the clock.
static double fan(int count) {
    auto start = Clock::now();
    build_and_run_fan(count);
    return nanoseconds(start) / count;
}

static double layered(int count) {
    int width = std::min(1000, std::max(8, count / 10)), layers = std::max(2, count / width);
    auto start = Clock::now();
    build_and_run_layers(layers, width);
    return nanoseconds(start) / ((double)layers * width);
}

static double serial(int count) {
    tbb::flow::graph graph;
    tbb::flow::function_node<int> node(graph, tbb::flow::serial, [](int) {});
    auto start = Clock::now();
    for (int i = 0; i < count; i++) node.try_put(i);
    graph.wait_for_all();
    return nanoseconds(start) / count;
}

int main(int argc, char **argv) {
    const std::map<std::string, std::function<double(int)>> workloads = {
        {"W1", flood}, {"W2", chain}, {"W3", fan}, {"W4", layered}, {"W6", serial}};
    int count = argc == 3 ? atoi(argv[2]) : 0;
    if (count < 1) {
        printf("usage: %s WORKLOAD COUNT\n", argv[0]);
        return 2;
    }
    auto workload = workloads.find(argv[1]);
    if (workload == workloads.end()) return 3;
    workload->second(std::max(1, count / 10));
    clock_t start_of_processor = clock();
    double value = workload->second(count);
    printf("%.3f %.3f\n", value, double(clock() - start_of_processor) / CLOCKS_PER_SEC * 1e9 / count);
}
