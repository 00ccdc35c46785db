//! What the programs beside this share: how their loops are timed.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

/// Operations per loop.
pub const MANY: u32 = 64;

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// How long each loop took, by name.
#[derive(Default)]
pub struct Times(BTreeMap<&'static str, Vec<Duration>>);

impl Times {
    /// Runs a loop.
    pub fn run<T>(&mut self, name: &'static str, body: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = body();
        self.0.entry(name).or_default().push(start.elapsed());
        done
    }

    /// Those of another thread, too.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub fn print(&mut self) {
        for (name, times) in &mut self.0 {
            times.sort_unstable();
            let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(MANY);
            let (least, median) = (each(times[0]), each(times[times.len() / 2]));
            println!("{name} {least:.2} {median:.2}");
        }
    }
}

/// Runs one loop, timed under its own name.
#[macro_export]
macro_rules! run {
    ($times:ident, $module:ident :: $name:ident ( $($argument:expr),* )) => {
        $times.run(concat!(stringify!($module), "::", stringify!($name)), || {
            $module::$name($($argument),*)
        })?
    };
}
