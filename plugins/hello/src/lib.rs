use extism_pdk::{plugin_fn, FnResult, Json};

#[derive(serde::Serialize)]
struct Greeting {
    message: String,
}

/// Greets whoever the input names.
#[plugin_fn]
pub fn hello(name: String) -> FnResult<Json<Greeting>> {
    Ok(Json(Greeting {
        message: format!("🦀 Hello {name}"),
    }))
}
