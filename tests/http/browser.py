"""A page in headless Chromium, as the tests of the dashboard see it. Debian's chromium, chromium-driver and python3-selenium."""
import base64
import json
import os
import shutil
import unittest

PROGRAMS = ("chromium", "chromedriver")


def need_browser():
    """Skip the test without a browser or Selenium, or fail it with CI=true."""
    try:
        import selenium.webdriver  # noqa: F401
        missing = [program for program in PROGRAMS if not shutil.which(program)]
    except ImportError:
        missing = ["selenium"]
    if missing:
        hint = f"no {', '.join(missing)}: apt-get install chromium chromium-driver python3-selenium, and run with /usr/bin/python3"
        if os.environ.get("CI") == "true":
            raise AssertionError(hint)
        raise unittest.SkipTest(hint)


class Browser:
    """A page in a browser. Everything that it asked for and every complaint in its console is noted."""

    def __init__(self, url):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1440,900"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.requests = set()
        self.driver.get(url)

    def close(self):
        self.driver.quit()

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def command(self, name, **parameters):
        return self.driver.execute_cdp_cmd(name, parameters)

    def all(self, selector):
        """Return the elements. Only those that stay may be asked again later: live tables change."""
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def text(self, selector):
        return self.one(selector).text

    def texts(self, selector):
        """Return the texts of elements in one go, so that changes meanwhile do no harm."""
        return self.script("return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)", selector)

    def count(self, selector):
        return len(self.texts(selector))

    def press(self, *keys):
        """Send keys to whatever has the focus. The last may be a chord, as ActionChains writes it."""
        from selenium.webdriver.common.action_chains import ActionChains
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def chord(self, hold, key):
        from selenium.webdriver.common.action_chains import ActionChains
        ActionChains(self.driver).key_down(hold).send_keys(key).key_up(hold).perform()

    def focused(self):
        """Return the focused element: its id, else its name, else its first class."""
        return self.script("const it = document.activeElement; return it.id || it.name || it.className || it.tagName")

    def complaints(self):
        """Return the console messages since the last time that are warnings or worse."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]

    def asked(self):
        """Return every address that the page asked for so far."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.add(message["params"]["request"]["url"])
        return self.requests

    def look(self, width, height, theme="light", phone=False):
        """Show the page on a screen of this size, to a user who likes it light or dark."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def width_needed(self):
        return self.script("return document.documentElement.scrollWidth")

    def take_picture(self, path, width):
        """Return a picture of the whole page, from its top."""
        self.script("scrollTo(0, 0)")
        height = self.script("return document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        picture = self.command("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(picture["data"]))
