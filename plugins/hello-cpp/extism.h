// What a guest may import from "extism:host/env", as far as it is used here.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace extism {

#define EXTISM(name) __attribute__((import_module("extism:host/env"), import_name(#name))) extern "C"

EXTISM(input_length)   uint64_t input_length();
EXTISM(input_load_u8)  uint8_t input_load_u8(uint64_t index);
EXTISM(input_load_u64) uint64_t input_load_u64(uint64_t index);
EXTISM(alloc)          uint64_t alloc(uint64_t length);
EXTISM(store_u8)       void store_u8(uint64_t offset, uint8_t byte);
EXTISM(store_u64)      void store_u64(uint64_t offset, uint64_t word);
EXTISM(output_set)     void output_set(uint64_t offset, uint64_t length);

#undef EXTISM

inline std::string input() {
  std::string bytes(static_cast<size_t>(input_length()), '\0');
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const uint64_t word = input_load_u64(i);
    std::memcpy(bytes.data() + i, &word, 8);
  }
  for (; i < bytes.size(); i++) bytes[i] = static_cast<char>(input_load_u8(i));
  return bytes;
}

inline void output(std::string_view bytes) {
  const uint64_t at = alloc(bytes.size());
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    store_u64(at + i, word);
  }
  for (; i < bytes.size(); i++) store_u8(at + i, static_cast<uint8_t>(bytes[i]));
  output_set(at, bytes.size());
}

}  // namespace extism
