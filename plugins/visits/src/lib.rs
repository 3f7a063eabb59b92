use extism_pdk::{plugin_fn, Error, FnResult, Memory};

#[link(wasm_import_module = "wasm-serve:kv")]
extern "C" {
    fn get(key: u64) -> i64;
    fn set_if_absent(key: u64, value: u64, ttl_ms: u64) -> i64;
    fn compare_and_swap(key: u64, expected: u64, value: u64, ttl_ms: u64) -> i64;
}

const NOT_FOUND: i64 = -1;
const CONFLICT: i64 = -2;

/// Counts how often each name has come, in whatever thread or process.
#[plugin_fn]
pub fn visits(name: String) -> FnResult<String> {
    let key = Memory::from_bytes(&name)?;
    loop {
        let found = match unsafe { get(key.offset()) } {
            NOT_FOUND => None,
            offset if offset > 0 => Memory::find(offset as u64),
            code => return Err(failure(code)),
        };
        let count = match &found {
            Some(value) => value.to_string()?.parse::<u64>()? + 1,
            None => 1,
        };
        let value = Memory::from_bytes(count.to_string())?;
        let code = match &found {
            Some(old) => unsafe { compare_and_swap(key.offset(), old.offset(), value.offset(), 0) },
            None => unsafe { set_if_absent(key.offset(), value.offset(), 0) },
        };
        match code {
            0 => return Ok(format!("{name}: {count}\n")),
            CONFLICT => continue, // somebody else was counted meanwhile
            code => return Err(failure(code)),
        }
    }
}

/// docs/guide/state.md of wasm-serve says what the codes mean.
fn failure(code: i64) -> extism_pdk::WithReturnCode<Error> {
    Error::msg(format!("the store said {code}")).into()
}
