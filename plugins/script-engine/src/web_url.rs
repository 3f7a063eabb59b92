//! URLs as browsers read them. Host names are ASCII or already encoded (`xn--`).

use rquickjs::{function::Opt, Ctx, Object};
use url::{quirks, Url};

/// The parts of a URL; None if it is not one.
pub fn parse<'js>(ctx: Ctx<'js>, text: String, base: Opt<String>) -> rquickjs::Result<Option<Object<'js>>> {
    let base = base.0.as_deref().map(Url::parse);
    let parsed = match &base {
        Some(Err(_)) => return Ok(None),
        Some(Ok(base)) => base.join(&text),
        None => Url::parse(&text),
    };
    parsed.ok().map(|url| parts(&ctx, &url)).transpose()
}

/// The parts after one of them was set: as they were if it cannot have this value. None if it is no URL any more.
pub fn change<'js>(ctx: Ctx<'js>, text: String, part: String, value: String) -> rquickjs::Result<Option<Object<'js>>> {
    let Ok(mut url) = Url::parse(&text) else { return Ok(None) };
    match part.as_str() {
        "href" => match Url::parse(&value) {
            Ok(other) => url = other,
            Err(_) => return Ok(None),
        },
        "protocol" => drop(quirks::set_protocol(&mut url, &value)),
        "username" => drop(quirks::set_username(&mut url, &value)),
        "password" => drop(quirks::set_password(&mut url, &value)),
        "host" => drop(quirks::set_host(&mut url, &value)),
        "hostname" => drop(quirks::set_hostname(&mut url, &value)),
        "port" => drop(quirks::set_port(&mut url, &value)),
        "pathname" => quirks::set_pathname(&mut url, &value),
        "search" => quirks::set_search(&mut url, &value),
        _ => quirks::set_hash(&mut url, &value),
    }
    parts(&ctx, &url).map(Some)
}

fn parts<'js>(ctx: &Ctx<'js>, url: &Url) -> rquickjs::Result<Object<'js>> {
    let parts = Object::new(ctx.clone())?;
    parts.set("href", quirks::href(url))?;
    parts.set("origin", quirks::origin(url))?;
    parts.set("protocol", quirks::protocol(url))?;
    parts.set("username", quirks::username(url))?;
    parts.set("password", quirks::password(url))?;
    parts.set("host", quirks::host(url))?;
    parts.set("hostname", quirks::hostname(url))?;
    parts.set("port", quirks::port(url))?;
    parts.set("pathname", quirks::pathname(url))?;
    parts.set("search", quirks::search(url))?;
    parts.set("hash", quirks::hash(url))?;
    Ok(parts)
}
