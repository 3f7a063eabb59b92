//! Rust's axum with Extism's own crate, for the bench. `peer-axum echo` answers with the body; `peer-axum pool FILE
//! FUNCTION` answers with what a function of a plug-in makes of it.

use std::{env, fs, time::Duration};

use axum::{
    Router,
    body::Bytes,
    http::StatusCode,
    routing::{MethodRouter, post},
};
use extism::{CompiledPlugin, Manifest, Plugin, PluginBuilder, Pool, PoolBuilder, Wasm};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let route = match words[..] {
        ["echo"] => post(|body: Bytes| async { body }),
        ["pool", file, function] => pooled(file, function.to_owned()),
        _ => panic!("usage: peer-axum echo | peer-axum pool FILE FUNCTION"),
    };
    tokio::runtime::Builder::new_multi_thread()
        .enable_io()
        .build()
        .expect("a runtime")
        .block_on(serve(Router::new().route("/", route)));
}

async fn serve(app: Router) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    println!(
        "listens on http://{}",
        listener.local_addr().expect("an address")
    );
    axum::serve(listener, app).await.expect("a server");
}

/// Compiled once; as many instances as cores, which is also how many threads tokio has, so that none waits for one.
/// Calls are not handed to `spawn_blocking`: they are short, and that would cost more than they do.
fn pooled(file: &str, function: String) -> MethodRouter {
    let manifest = Manifest::new([Wasm::data(fs::read(file).expect("a file"))]);
    let compiled =
        CompiledPlugin::new(PluginBuilder::new(manifest).with_wasi(true)).expect("a plug-in");
    let pool: Pool = PoolBuilder::new().build(move || Plugin::new_from_compiled(&compiled));
    post(move |body: Bytes| async move {
        let mut plugin = pool.get(Duration::from_secs(5)).map_err(failed)?.ok_or((
            StatusCode::SERVICE_UNAVAILABLE,
            "all instances are busy".to_owned(),
        ))?;
        plugin
            .call::<&[u8], Vec<u8>>(&function, &body)
            .map_err(failed)
    })
}

fn failed(error: extism::Error) -> (StatusCode, String) {
    (StatusCode::CONFLICT, error.to_string())
}
