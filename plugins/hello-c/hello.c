#include "extism.h"
#include <stdlib.h>
#include <string.h>

static const char BEGIN[] = "{\"message\":\"🦀 Hello ";
static const char END[] = "\"}";

static void read_input(unsigned char *bytes, size_t length) {
  size_t i = 0;
  for (; i + 8 <= length; i += 8) {
    uint64_t word = extism_input_load_u64(i);
    memcpy(bytes + i, &word, 8);
  }
  for (; i < length; i++) bytes[i] = extism_input_load_u8(i);
}

/* A block with these bytes. */
static uint64_t block(const char *bytes, size_t length) {
  uint64_t at = extism_alloc(length);
  size_t i = 0;
  for (; i + 8 <= length; i += 8) {
    uint64_t word;
    memcpy(&word, bytes + i, 8);
    extism_store_u64(at + i, word);
  }
  for (; i < length; i++) extism_store_u8(at + i, (uint8_t)bytes[i]);
  return at;
}

static char *append(char *to, const char *bytes, size_t length) {
  memcpy(to, bytes, length);
  return to + length;
}

/* Appends text as it stands in a JSON string: at most six bytes for one. */
static char *append_escaped(char *to, const unsigned char *text, size_t length) {
  static const char hex[] = "0123456789abcdef";
  for (size_t i = 0; i < length; i++) {
    unsigned char c = text[i];
    if (c < 0x20) {
      to = append(to, "\\u00", 4);
      *to++ = hex[c >> 4];
      *to++ = hex[c & 15];
    } else {
      if (c == '"' || c == '\\') *to++ = '\\';
      *to++ = (char)c;
    }
  }
  return to;
}

static int32_t fail(const char *why) {
  extism_error_set(block(why, strlen(why)));
  return 1;
}

/* Greets whoever the input names. */
__attribute__((export_name("hello"))) int32_t hello(void) {
  size_t length = (size_t)extism_input_length();
  unsigned char *name = malloc(length + 1);
  char *json = malloc(sizeof BEGIN + 6 * length + sizeof END);
  if (!name || !json) {
    free(name);
    free(json);
    return fail("out of memory");
  }
  read_input(name, length);
  char *to = append(json, BEGIN, sizeof BEGIN - 1);
  to = append_escaped(to, name, length);
  to = append(to, END, sizeof END - 1);
  size_t size = (size_t)(to - json);
  extism_output_set(block(json, size), size);
  free(name);
  free(json);
  return 0;
}
