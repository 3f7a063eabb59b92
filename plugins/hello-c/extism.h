/* What a guest may import from "extism:host/env", as far as it is used here. */
#pragma once
#include <stdint.h>

#define EXTISM(name) __attribute__((import_module("extism:host/env"), import_name(#name))) extern

EXTISM(input_length)   uint64_t extism_input_length(void);
EXTISM(input_load_u8)  uint8_t extism_input_load_u8(uint64_t index);
EXTISM(input_load_u64) uint64_t extism_input_load_u64(uint64_t index);
EXTISM(alloc)          uint64_t extism_alloc(uint64_t length);
EXTISM(store_u8)       void extism_store_u8(uint64_t offset, uint8_t byte);
EXTISM(store_u64)      void extism_store_u64(uint64_t offset, uint64_t word);
EXTISM(output_set)     void extism_output_set(uint64_t offset, uint64_t length);
EXTISM(error_set)      void extism_error_set(uint64_t offset);
