import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mustSucceed, patientFetch } from '../src/session/patientFetch';

(globalThis as { window?: unknown }).window ??= globalThis;

const URL = 'http://lab/api/contents/a.ipynb/checkpoints?1';

test('only requests that open a notebook are repeated', () => {
  assert.ok(mustSucceed('GET', URL));
  assert.ok(mustSucceed('POST', URL));
  assert.ok(mustSucceed('GET', 'http://lab/api/contents/folder/a.ipynb?content=1&type=notebook'));
  assert.ok(mustSucceed('GET', 'http://lab/api/sessions?1794'));
  assert.ok(!mustSucceed('POST', 'http://lab/api/sessions?1794'));
  assert.ok(!mustSucceed('PUT', 'http://lab/api/contents/a.ipynb'));
  assert.ok(!mustSucceed('GET', 'http://lab/api/contents/folder?content=1&type=directory'));
});

test('a request waits until the server is reachable again', async () => {
  let reachable = false;
  const whenReachable = new Promise<void>(done => setTimeout(() => done(void (reachable = true)), 20));
  let requests = 0;
  const fetch = async (): Promise<Response> => {
    requests += 1;
    if (!reachable) {
      throw new TypeError('Failed to fetch');
    }
    return new Response('[]');
  };
  const answer = await patientFetch(fetch, { check: async () => reachable, whenReachable })(new Request(URL));
  assert.equal(await answer.text(), '[]');
  assert.equal(requests, 2);
});

test('a request that fails although the server answers is given up', async () => {
  let requests = 0;
  const fetch = (): Promise<Response> => Promise.reject(new TypeError(String(++requests)));
  await assert.rejects(patientFetch(fetch, { check: async () => true, whenReachable: Promise.resolve() })(new Request(URL)));
  assert.equal(requests, 3);
});
