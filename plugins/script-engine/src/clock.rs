//! The clock and the random numbers of the C library.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

thread_local! {
    static IS_STARTED: Cell<bool> = const { Cell::new(false) };
    /// The state of `Math.random`; 0 until the first number.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

#[link(wasm_import_module = "wasi_snapshot_preview1")]
extern "C" {
    fn random_get(bytes: *mut u8, length: usize) -> u16;
    fn clock_time_get(clock: u32, precision: u64, nanoseconds: *mut u64) -> u16;
}

/// Until then each clock is at 0.
pub fn start() {
    IS_STARTED.set(true);
}

/// Random bytes of the host.
pub fn fill(bytes: &mut [u8]) {
    assert_eq!(unsafe { random_get(bytes.as_mut_ptr(), bytes.len()) }, 0);
}

/// QuickJS seeds `Math.random` when it starts. All instances have the memory of one start: so the first number is drawn by whoever asks for it. (Xorshift64*, as in QuickJS)
pub fn random() -> f64 {
    let mut state = RANDOM.get();
    while state == 0 {
        let mut seed = [0; 8];
        fill(&mut seed);
        state = u64::from_le_bytes(seed);
    }
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    RANDOM.set(state);
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
}

/// The times of C.
#[repr(C)]
pub struct TimeSpec {
    seconds: i64,
    nanoseconds: i32,
}

#[repr(C)]
pub struct TimeVal {
    seconds: i64,
    microseconds: i64,
}

/// This and the next one are of the C library, but that QuickJS starts without the host: it only wants a seed then.
#[no_mangle]
pub extern "C" fn clock_gettime(clock: &u32, time: &mut TimeSpec) -> c_int {
    let Some(nanoseconds) = tell(*clock) else { return -1 };
    *time = TimeSpec { seconds: nanoseconds / 1_000_000_000, nanoseconds: (nanoseconds % 1_000_000_000) as i32 };
    0
}

#[no_mangle]
pub extern "C" fn gettimeofday(time: &mut TimeVal, _zone: *mut c_void) -> c_int {
    let Some(nanoseconds) = tell(0) else { return -1 };
    *time = TimeVal { seconds: nanoseconds / 1_000_000_000, microseconds: nanoseconds % 1_000_000_000 / 1_000 };
    0
}

/// Nanoseconds, or None if the host has no such clock.
fn tell(clock: u32) -> Option<i64> {
    let mut nanoseconds = 0;
    let is_told = !IS_STARTED.get() || unsafe { clock_time_get(clock, 1, &mut nanoseconds) } == 0;
    is_told.then_some(nanoseconds as i64)
}
