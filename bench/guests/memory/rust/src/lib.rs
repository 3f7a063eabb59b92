//! The three workloads of bench/guest-memory.ts. The input is a number, and makes the answers differ.

use extism_pdk::{plugin_fn, FnResult};
use std::collections::HashMap;
use std::sync::OnceLock;

#[cfg(feature = "talc")]
#[global_allocator]
static ALLOCATOR: talc::TalckWasm = unsafe { talc::TalckWasm::new_global() };

#[cfg(feature = "lol_alloc")]
#[global_allocator]
static ALLOCATOR: lol_alloc::AssumeSingleThreaded<lol_alloc::FreeListAllocator> =
    unsafe { lol_alloc::AssumeSingleThreaded::new(lol_alloc::FreeListAllocator::new()) };

/// Twenty strings of 100 kB, each dead when the next is made.
#[plugin_fn]
pub fn strings(seed: String) -> FnResult<String> {
    let mut total = 0;
    for i in 0..20 {
        let unit = format!("{seed}-{i};");
        let text = unit.repeat(100_000 / unit.len());
        total += text.len() + usize::from(text.as_bytes()[text.len() - 1 - i]);
    }
    Ok(total.to_string())
}

struct Node {
    value: i64,
    children: Option<(Box<Node>, Box<Node>)>,
}

/// Lives as long as the instance.
static KEPT: OnceLock<Box<Node>> = OnceLock::new();

/// Two trees of 2,047 nodes, beside one of 8,191 that lives on.
#[plugin_fn]
pub fn trees(seed: String) -> FnResult<String> {
    let seed: i64 = seed.parse()?;
    let kept = KEPT.get_or_init(|| grow(12, 1));
    let mut total = kept.children.as_ref().map_or(0, |(_, right)| right.value);
    for i in 0..2 {
        total += sum(&grow(10, seed + i));
    }
    Ok(total.to_string())
}

fn grow(depth: u32, value: i64) -> Box<Node> {
    let children = (depth > 0).then(|| (grow(depth - 1, 2 * value), grow(depth - 1, 2 * value + 1)));
    Box::new(Node { value, children })
}

fn sum(tree: &Node) -> i64 {
    tree.value + tree.children.as_ref().map_or(0, |(left, right)| sum(left) + sum(right))
}

/// A map from 500 short strings to as many others.
#[plugin_fn]
pub fn words(seed: String) -> FnResult<String> {
    let seed: usize = seed.parse()?;
    let mut words = HashMap::new();
    for i in 0..500 {
        words.insert(format!("word{}", seed + i), format!("value{i}"));
    }
    let mut total = seed;
    for i in 0..500 {
        let value = words[&format!("word{}", seed + i * 7 % 500)].as_bytes();
        total += value.len() + usize::from(value[value.len() - 1]);
    }
    Ok(total.to_string())
}
