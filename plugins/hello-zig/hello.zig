const std = @import("std");

/// What a guest may import, as far as it is used here.
const extism = struct {
    extern "extism:host/env" fn input_length() u64;
    extern "extism:host/env" fn input_load_u8(index: u64) u8;
    extern "extism:host/env" fn input_load_u64(index: u64) u64;
    extern "extism:host/env" fn alloc(length: u64) u64;
    extern "extism:host/env" fn store_u8(offset: u64, byte: u8) void;
    extern "extism:host/env" fn store_u64(offset: u64, word: u64) void;
    extern "extism:host/env" fn output_set(offset: u64, length: u64) void;
    extern "extism:host/env" fn error_set(offset: u64) void;
};

const Greeting = struct { message: []const u8 };

/// Greets whoever the input names.
export fn hello() i32 {
    greet() catch |reason| {
        extism.error_set(block(@errorName(reason)));
        return 1;
    };
    return 0;
}

fn greet() !void {
    var arena = std.heap.ArenaAllocator.init(std.heap.wasm_allocator);
    defer arena.deinit();
    const gpa = arena.allocator();
    const greeting = Greeting{ .message = try std.mem.concat(gpa, u8, &.{ "🦀 Hello ", try input(gpa) }) };
    const json = try std.fmt.allocPrint(gpa, "{f}", .{std.json.fmt(greeting, .{})});
    extism.output_set(block(json), json.len);
}

fn input(gpa: std.mem.Allocator) ![]u8 {
    const bytes = try gpa.alloc(u8, @intCast(extism.input_length()));
    var i: usize = 0;
    while (i + 8 <= bytes.len) : (i += 8) std.mem.writeInt(u64, bytes[i..][0..8], extism.input_load_u64(i), .little);
    while (i < bytes.len) : (i += 1) bytes[i] = extism.input_load_u8(i);
    return bytes;
}

/// A block with these bytes.
fn block(bytes: []const u8) u64 {
    const at = extism.alloc(bytes.len);
    var i: usize = 0;
    while (i + 8 <= bytes.len) : (i += 8) extism.store_u64(at + i, std.mem.readInt(u64, bytes[i..][0..8], .little));
    while (i < bytes.len) : (i += 1) extism.store_u8(at + i, bytes[i]);
    return at;
}
