// Headers of cells, which may be anybody's: read once, and checked before anything is allocated. cell.h draws the bytes.
#pragma once

#include "samovar/cell.h"

namespace samovar {

constexpr char CELL_MAGIC[4] = {'S', 'M', 'V', 'C'};
constexpr uint8_t CELL_FORMAT = 2;
constexpr uint8_t CELL_FLOAT32 = 1;

uint64_t checksum_of(CellHeader header, const void* payload, size_t size);

// All that follow throw std::exception with what is wrong with the cell.
CellHeader read_header(const uint8_t* cell, size_t size);
Shape shape_of(const CellHeader& header);
KeyLayout key_layout_of(const CellHeader& header);

// Throws unless the header's counts give exactly its payload size.
void check_counts(const CellHeader& header, const Shape& shape);

// The memory that the values of a cell take, as the index of its file says it. Its counts were checked.
uint64_t decoded_bytes(const CellHeader& header, const Shape& shape);

// Throws unless the cell is one of its column and minibatch.
void check_expected(const CellHeader& header, const Shape& shape, const ColumnSpec& column, uint64_t num_examples);

}  // namespace samovar
