"""Write the dashboards."""

from dashboards import files

if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
