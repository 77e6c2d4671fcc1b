import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forwardInHtml, forwardInScript } from '../src/colab/localAddresses';
import { lacksColab } from '../src/colab/missingModule';

const BASE = 'http://127.0.0.1:8888/';

test('a missing google.colab is recognised, and nothing else', () => {
  const failed = (ename: string, evalue: string, ...traceback: string[]): boolean => lacksColab({ ename, evalue, traceback });
  assert.ok(failed('ModuleNotFoundError', "No module named 'google.colab'"));
  assert.ok(failed('ModuleNotFoundError', "No module named 'google.colab.patches'"));
  assert.ok(failed('ImportError', "cannot import name 'colab' from 'google' (unknown location)"));
  const line = '\x1b[32m----> 1\x1b[39m \x1b[38;5;28;01mfrom\x1b[39;00m google\x1b[34m.\x1b[39mcolab import drive';
  assert.ok(failed('ModuleNotFoundError', "No module named 'google'", line));
  assert.ok(failed('ModuleNotFoundError', "No module named 'google'", '----> 1 from google import auth, colab'));
  assert.ok(!failed('ModuleNotFoundError', "No module named 'google'", '----> 1 import google.protobuf'));
  assert.ok(!failed('ModuleNotFoundError', "No module named 'google.colaboratory'"));
  assert.ok(!failed('ValueError', "No module named 'google.colab'", line));
});

test('addresses of the kernel’s machine are forwarded in attributes and scripts, not in text', () => {
  assert.equal(
    forwardInHtml('<script src="https://localhost:8001/a.js"></script><p>https://localhost:8001</p>', BASE),
    '<script src="http://127.0.0.1:8888/proxy/8001/a.js"></script><p>https://localhost:8001</p>'
  );
  assert.equal(forwardInHtml("<img src='https://localhost:80'>", BASE), "<img src='http://127.0.0.1:8888/proxy/80'>");
  assert.equal(forwardInHtml("<script>fetch('https://localhost:9/x')</script>", BASE), "<script>fetch('http://127.0.0.1:8888/proxy/9/x')</script>");
  assert.equal(forwardInScript('fetch(`https://localhost:8001?a`)', BASE), 'fetch(`http://127.0.0.1:8888/proxy/8001?a`)');
  const unchanged = '<a href="http://localhost:8001/">a</a><img src="https://localhost/b.png"><img src="https://localhost:123456/">';
  assert.equal(forwardInHtml(unchanged, BASE), unchanged);
});
