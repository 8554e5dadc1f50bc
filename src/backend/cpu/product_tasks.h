// The tasks into which a batch of products is cut, and the order in which threads take them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backend/cpu/gemm_operands.h"
#include "backend/cpu/product_cut.h"
#include "backend/scratch_list.h"

namespace moesh::backend::cpu {

// Several products are taken by their work, the largest first, and their tasks get smaller as less work is left, so that threads finish
// together and yet little is packed twice. Products of few rows come last. They stay whole as long as every thread gets one; only the
// remaining ones are divided among threads.
// size_of(i): the size of product i. strips_of(i): into how many parts of its columns a product of few rows is divided, if it is; 0 for a
// product that is computed in blocks.
template <typename Operands, typename SizeOf, typename StripsOf>
ScratchList<ProductPart> tasks_of(const Operands& of, std::int64_t threads, double least_work, const SizeOf& size_of,
                                  const StripsOf& strips_of) {
  struct Product {
    std::int64_t i;
    ProductSize size;
    std::int64_t strips;
    double work;
  };
  ScratchList<Product> products;
  std::int64_t of_few_rows = 0;
  double left = 0;
  for (std::int64_t i = 0; i < of.batch; ++i) {
    if (of.rows_of(i).size() == 0 || of.columns == 0) continue;
    const ProductSize size = size_of(i);
    const std::int64_t strips = strips_of(i);
    products.push_back({i, size, strips, strips > 0 ? 0 : size.work()});
    left += products.back().work;
    of_few_rows += strips > 0 ? 1 : 0;
  }
  const auto comes_first = [](const Product& a, const Product& b) { return a.work != b.work ? a.work > b.work : a.i < b.i; };
  std::sort(products.begin(), products.end(), comes_first);
  std::int64_t whole = round_down(of_few_rows, threads);
  ScratchList<ProductPart> tasks;
  for (const Product& product : products) {
    const double share = left / static_cast<double>(threads);
    const double most = threads == 1 ? std::numeric_limits<double>::infinity() : std::max(least_work, share);
    left -= product.work;
    const Cut cut = product.strips > 0 ? Cut{1, whole-- > 0 ? 1 : product.strips}
                    : of.batch == 1    ? cut_for_threads(product.size, threads)
                                       : cut_of(product.size, most);
    const Range rows = of.rows_of(product.i);
    for (std::int64_t part = 0; part < cut.parts; ++part) {
      const Range columns = piece_of(of.columns, product.size.block_columns, cut.parts, part);
      for (std::int64_t band = 0; band < cut.bands; ++band) {
        const Range of_band = piece_of(rows.size(), product.size.block_rows, cut.bands, band);
        tasks.push_back({product.i, {rows.begin + of_band.begin, rows.begin + of_band.end}, columns});
      }
    }
  }
  return tasks;
}

// The order in which threads take tasks. Of a single product, a thread takes neighbouring tasks, so that what it reads and writes is what
// it wrote and reads in the ops before and after; of several products, it takes the largest task that is left.
template <typename Operands>
Workers::Order order_of(const Operands& of) {
  return of.batch == 1 ? Workers::Order::by_shares : Workers::Order::as_given;
}

// The task that a thread is likely to take after this one; past the last task if there is none.
template <typename Operands>
std::int64_t task_after(const Operands& of, std::int64_t task, std::int64_t threads) {
  return order_of(of) == Workers::Order::by_shares ? task + 1 : task + threads;
}

// Calls run(begin, end) for all tasks; a thread is handed as many at a time as have at least `least_work` on average. work_of(task) is in
// multiplications.
template <typename Operands, typename WorkOf, typename Run>
void run_tasks(Workers* workers, const Operands& of, const ScratchList<ProductPart>& tasks, double least_work, const WorkOf& work_of,
               const Run& run) {
  const auto count = static_cast<std::int64_t>(tasks.size());
  if (count == 0) return;
  if (workers == nullptr) return run(0, count);
  double work = 0;
  for (const ProductPart& task : tasks) work += work_of(task);
  const double grain = least_work * static_cast<double>(count) / std::max(1.0, work);
  workers->parallel(count, 1 + static_cast<std::int64_t>(grain), run, order_of(of));
}

}  // namespace moesh::backend::cpu
