//! The functions of the host that a script declares. wasm-serve gives the imports their names and types, and writes the body of
//! `script_host`: the one here keeps the imports in the module.

use crate::host::view;
use rquickjs::{Ctx, TypedArray};

macro_rules! declare_hosts {
    ($($place:literal $name:ident),*) => {
        #[link(wasm_import_module = "wasm-serve:script")]
        extern "C" {
            $(fn $name();)*
        }

        /// Calls a function of the host, which reads its arguments at an address and writes its result there.
        #[no_mangle]
        #[inline(never)]
        pub unsafe extern "C" fn script_host(place: u32, values: *mut u64) {
            std::hint::black_box(values);
            match place {
                $($place => $name(),)*
                _ => {}
            }
        }
    };
}

declare_hosts!(
    0 host_0, 1 host_1, 2 host_2, 3 host_3, 4 host_4, 5 host_5, 6 host_6, 7 host_7,
    8 host_8, 9 host_9, 10 host_10, 11 host_11, 12 host_12, 13 host_13, 14 host_14, 15 host_15,
    16 host_16, 17 host_17, 18 host_18, 19 host_19, 20 host_20, 21 host_21, 22 host_22, 23 host_23,
    24 host_24, 25 host_25, 26 host_26, 27 host_27, 28 host_28, 29 host_29, 30 host_30, 31 host_31
);

/// Bytes of the arguments of a function: 16 values.
const VALUES: usize = 128;

/// @param values - The arguments, eight bytes each. @returns the eight bytes of the result.
pub fn call<'js>(ctx: Ctx<'js>, place: u32, values: TypedArray<'js, u8>) -> rquickjs::Result<TypedArray<'js, u8>> {
    let mut slots = [0_u64; VALUES / 8];
    for (slot, value) in slots.iter_mut().zip(view(&values).chunks_exact(8)) {
        *slot = u64::from_le_bytes(value.try_into().unwrap_or_default());
    }
    unsafe { script_host(place, slots.as_mut_ptr()) }
    TypedArray::new(ctx, slots[0].to_le_bytes())
}
