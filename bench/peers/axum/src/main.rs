//! Rust's axum with Extism's own crate, for the bench. `peer-axum echo` answers with the body; `peer-axum pool FILE
//! FUNCTION` answers with what a function of a plug-in makes of it. `tls CERTIFICATE KEY` before either serves HTTPS.

use std::{env, fs, net::TcpListener, time::Duration};

use axum::{
    Router,
    body::Bytes,
    http::StatusCode,
    routing::{MethodRouter, post},
};
use axum_server::tls_rustls::RustlsConfig;
use extism::{CompiledPlugin, Manifest, Plugin, PluginBuilder, Pool, PoolBuilder, Wasm};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (tls, words) = match words[..] {
        ["tls", certificate, key, ref rest @ ..] => (Some((certificate, key)), rest),
        ref all => (None, all),
    };
    let route = match *words {
        ["echo"] => post(|body: Bytes| async { body }),
        ["pool", file, function] => pooled(file, function.to_owned()),
        _ => panic!("usage: peer-axum [tls CERTIFICATE KEY] (echo | pool FILE FUNCTION)"),
    };
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(serve(Router::new().route("/", route), tls));
}

async fn serve(app: Router, tls: Option<(&str, &str)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    if let Some((certificate, key)) = tls {
        let config = RustlsConfig::from_pem_file(certificate, key)
            .await
            .expect("a certificate and its key");
        println!("listens on https://{address}");
        axum_server::from_tcp_rustls(listener, config)
            .expect("a socket")
            .serve(app.into_make_service())
            .await
            .expect("a server");
    } else {
        println!("listens on http://{address}");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
        axum::serve(listener, app).await.expect("a server");
    }
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
