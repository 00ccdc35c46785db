//! `call-shapes rxe|mlx5 FILE...`: prints the distinct shapes of the calls in recordings of one
//! driver's devices.

use anyhow::{Context as _, bail};
use recordings::shapes::{Shapes, driver};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let Some(name) = arguments.next() else {
        bail!("call-shapes rxe|mlx5 FILE...");
    };
    let driver = driver(&name.to_string_lossy())?;
    let mut shapes = Shapes::default();
    for file in arguments {
        let text = std::fs::read_to_string(&file);
        text.map_err(Into::into)
            .and_then(|text| shapes.record(&text, driver))
            .with_context(|| file.display().to_string())?;
    }
    print!("{shapes}");
    Ok(())
}
