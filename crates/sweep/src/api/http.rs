//! HTTP/1.1 on a Unix socket: one request for each connection.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use super::{ApiError, DeadlineStream, MOST, failed, visible};

/// Sends a request, and returns the answer's body if its status is 2xx. `has_ended` says whether the VMM has ended.
pub fn request(
    socket: &Path,
    method: &str,
    path: &str,
    body: &str,
    limit: Duration,
    has_ended: impl Fn() -> bool,
) -> Result<String, ApiError> {
    let command = format!("{method} {path}");
    let mut stream = DeadlineStream::connect(socket, limit, has_ended)?;
    let request = format!(
        "{command} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let sent = stream.write_all(request.as_bytes());
    sent.map_err(|source| failed(&command, limit, source))?;
    let invalid = || ApiError::Invalid {
        command: command.clone(),
    };
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some((status, body)) = parse(&answer).ok_or_else(invalid)? {
            let body = String::from_utf8_lossy(body);
            return match status {
                200..300 => Ok(body.into_owned()),
                _ => Err(ApiError::Refused {
                    reason: visible(&format!("status {status} {body}")),
                    command,
                }),
            };
        }
        if answer.len() > MOST {
            return Err(invalid());
        }
        match stream.read(&mut chunk) {
            Ok(0) => return Err(invalid()),
            Ok(count) => answer.extend_from_slice(&chunk[..count]),
            Err(source) => return Err(failed(&command, limit, source)),
        }
    }
}

/// The status and the body of an answer; `Some(None)` if the answer is incomplete, and `None` if the bytes are not an
/// HTTP answer.
fn parse(answer: &[u8]) -> Option<Option<(u16, &[u8])>> {
    const END: &[u8] = b"\r\n\r\n";
    let Some(end) = answer.windows(END.len()).position(|bytes| bytes == END) else {
        return Some(None);
    };
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.lines();
    let status = lines.next()?.strip_prefix("HTTP/1.")?;
    let status = status.split(' ').nth(1)?.parse().ok()?;
    let len = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim())
    });
    let len = len.map_or(Ok(0), str::parse::<usize>).ok()?;
    if len > MOST {
        return None;
    }
    let body = &answer[end + END.len()..];
    Some(body.get(..len).map(|body| (status, body)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    /// The result of a request that is answered with these pieces.
    fn answered(pieces: &'static [&'static str], limit: Duration) -> Result<String, ApiError> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let count = stream.read(&mut request).unwrap();
            for piece in pieces {
                stream.write_all(piece.as_bytes()).unwrap();
            }
            // The client closes its end once it has an answer, or gives up.
            let _ = stream.read(&mut [0; 1]);
            request[..count].to_vec()
        });
        let result = request(&socket, "PUT", "/vm", "{}", limit, || false);
        let sent = server.join().unwrap();
        assert!(sent.starts_with(b"PUT /vm HTTP/1.1\r\n") && sent.ends_with(b"\r\n\r\n{}"));
        result
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_answer_may_come_in_pieces_and_without_a_body() {
        let pieces = &["HTTP/1.1 200 OK\r\ncontent-le", "ngth: 3\r\n\r\na", "bc"];
        assert_eq!(answered(pieces, LONG).unwrap(), "abc");
        assert_eq!(answered(&["HTTP/1.1 204 \r\n\r\n"], LONG).unwrap(), "");
    }

    #[test]
    fn a_refusal_has_the_vmms_own_message() {
        let pieces = &["HTTP/1.1 400 Bad\r\nContent-Length: 8\r\n\r\nno\nsuch\x07"];
        let error = answered(pieces, LONG).unwrap_err();
        assert_eq!(
            error.to_string(),
            "PUT /vm: the VMM refuses: status 400 no such"
        );
    }

    #[test]
    fn a_vmm_that_does_not_answer_is_not_waited_for_without_end() {
        let error = answered(&["HTTP/1.1 200"], Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, ApiError::TimedOut { .. }), "{error}");
    }

    #[test]
    fn an_answer_that_is_not_http_or_too_long_is_refused() {
        for piece in [
            &["SSH-2.0\r\n\r\n"][..],
            &["HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"],
            &["HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"],
        ] {
            let error = answered(piece, LONG).unwrap_err();
            assert!(matches!(error, ApiError::Invalid { .. }), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_parsed(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "HTTP/1.1 [0-9]{0,5} (\r\n|:|Content-Length|[0-9]){0,12}") {
            let _ = (parse(&bytes), parse(text.as_bytes()));
        }
    }
}
