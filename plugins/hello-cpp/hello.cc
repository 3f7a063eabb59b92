#include "extism.h"

// Text as a JSON string.
static std::string quoted(std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string json = "\"";
  for (const unsigned char c : text) {
    if (c < 0x20) {
      json += "\\u00";
      json += hex[c >> 4];
      json += hex[c & 15];
    } else {
      if (c == '"' || c == '\\') json += '\\';
      json += static_cast<char>(c);
    }
  }
  return json += '"';
}

// Greets whoever the input names.
extern "C" __attribute__((export_name("hello"))) int32_t hello() {
  extism::output("{\"message\":" + quoted("🦀 Hello " + extism::input()) + "}");
  return 0;
}
