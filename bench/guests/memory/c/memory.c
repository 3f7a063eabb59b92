/* The three workloads of bench/guest-memory.ts. The input is a number, and makes the answers differ. */
#include "../../../../plugins/hello-c/extism.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(name))) int32_t

static void read_input(char *bytes, size_t size) {
  size_t length = (size_t)extism_input_length();
  if (length >= size) abort();
  for (size_t i = 0; i < length; i++) bytes[i] = (char)extism_input_load_u8(i);
  bytes[length] = '\0';
}

static int32_t answer(int64_t total) {
  char text[24];
  int length = snprintf(text, sizeof text, "%" PRId64, total);
  uint64_t at = extism_alloc((uint64_t)length);
  for (int i = 0; i < length; i++) extism_store_u8(at + (uint64_t)i, (uint8_t)text[i]);
  extism_output_set(at, (uint64_t)length);
  return 0;
}

static void *allocate(size_t size) {
  void *block = malloc(size);
  if (!block) abort();
  return block;
}

/* Twenty strings of 100 kB, each dead when the next is made. */
EXPORT("strings") strings(void) {
  char seed[16], unit[32];
  read_input(seed, sizeof seed);
  int64_t total = 0;
  for (int i = 0; i < 20; i++) {
    size_t size = (size_t)snprintf(unit, sizeof unit, "%s-%d;", seed, i);
    size_t count = 100000 / size, length = count * size;
    char *text = allocate(length + 1);
    for (size_t j = 0; j < count; j++) memcpy(text + j * size, unit, size);
    text[length] = '\0';
    total += (int64_t)length + (unsigned char)text[length - 1 - (size_t)i];
    free(text);
  }
  return answer(total);
}

typedef struct node {
  int64_t value;
  struct node *left, *right;
} node;

static node *grow(int depth, int64_t value) {
  node *tree = allocate(sizeof *tree);
  *tree = (node){value, NULL, NULL};
  if (depth > 0) {
    tree->left = grow(depth - 1, 2 * value);
    tree->right = grow(depth - 1, 2 * value + 1);
  }
  return tree;
}

static int64_t sum(const node *tree) { return tree ? tree->value + sum(tree->left) + sum(tree->right) : 0; }

static void fell(node *tree) {
  if (!tree) return;
  fell(tree->left);
  fell(tree->right);
  free(tree);
}

/* Two trees of 2,047 nodes, beside one of 8,191 that lives on. */
EXPORT("trees") trees(void) {
  static node *kept;
  if (!kept) kept = grow(12, 1);
  char seed[16];
  read_input(seed, sizeof seed);
  int64_t total = kept->right->value;
  for (int i = 0; i < 2; i++) {
    node *tree = grow(10, atoll(seed) + i);
    total += sum(tree);
    fell(tree);
  }
  return answer(total);
}

/* A map of fixed size, whose chains hold strings of their own. */
typedef struct entry {
  char *key, *value;
  struct entry *next;
} entry;

#define BUCKETS 512

static size_t bucket_of(const char *key) {
  uint32_t hash = 2166136261u;
  for (; *key; key++) hash = (hash ^ (unsigned char)*key) * 16777619u;
  return hash % BUCKETS;
}

static char *format(const char *what, int number) {
  char text[32];
  size_t size = (size_t)snprintf(text, sizeof text, "%s%d", what, number) + 1;
  return memcpy(allocate(size), text, size);
}

/* A map from 500 short strings to as many others. */
EXPORT("words") words(void) {
  char text[16];
  read_input(text, sizeof text);
  int seed = atoi(text);
  entry **words = calloc(BUCKETS, sizeof *words);
  if (!words) abort();
  for (int i = 0; i < 500; i++) {
    entry *word = allocate(sizeof *word);
    char *key = format("word", seed + i);
    entry **bucket = &words[bucket_of(key)];
    *word = (entry){key, format("value", i), *bucket};
    *bucket = word;
  }
  int64_t total = seed;
  for (int i = 0; i < 500; i++) {
    char *key = format("word", seed + i * 7 % 500);
    entry *word = words[bucket_of(key)];
    while (strcmp(word->key, key) != 0) word = word->next;
    size_t length = strlen(word->value);
    total += (int64_t)length + (unsigned char)word->value[length - 1];
    free(key);
  }
  for (size_t i = 0; i < BUCKETS; i++) {
    for (entry *word = words[i], *next; word; word = next) {
      next = word->next;
      free(word->key);
      free(word->value);
      free(word);
    }
  }
  free(words);
  return answer(total);
}
