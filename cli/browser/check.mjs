// Tests the page of `leasehold ui` in a browser: node check.mjs LEASEHOLD FOLDER.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium } from 'playwright-core';

const [leasehold, folder] = process.argv.slice(2);
const owner = '8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10';
const other = '2f1cbd9e-3e5c-4d8e-9b4f-5a52a2b36b0c';
const evil = '<img src=x onerror="alert(1)">';
const started = [];

const freePort = async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
};
const port = await freePort();
const env = { ...process.env, REDIS_URL: `redis://127.0.0.1:${port}/` };
const start = (program, ...words) => {
  const child = spawn(program, words, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  started.push(child);
  return child;
};
const redis = (...words) => execFileSync('redis-cli', ['-p', String(port), ...words.map(String)]).toString().trim();
const until = async (what, check) => {
  for (let tries = 0; tries < 150; tries++) {
    if (await check()) return;
    await sleep(100);
  }
  assert.fail(`not in time: ${what}`);
};

const fill = () => {
  const hold = (name, number, ms) => {
    redis('HSET', name, `${owner}:${number}`, 1);
    if (ms) redis('PEXPIRE', name, ms);
  };
  hold('legacy/import', 42);
  hold('invoices/close', 7, 3_600_000);
  redis('RPUSH', 'redisson_lock_queue:{invoices/close}', `${other}:17`, `${other}:18`);
  redis('ZADD', 'redisson_lock_timeout:{invoices/close}', 1000, `${other}:17`, '9e12', `${other}:18`);
  hold(evil, 9, 90_000);
  redis('HSET', 'catalog', 'mode', 'read', `${owner}:1`, 1, `${other}:2`, 1);
  redis('PEXPIRE', 'catalog', 600_000);
  for (const reader of [`${owner}:1`, `${other}:2`]) redis('SET', `{catalog}:${reader}:rwlock_timeout:1`, 1, 'PX', 600_000);
};

let browser;
try {
  start('redis-server', '--port', String(port), '--save', '', '--dir', folder).stdout.resume();
  await until('Redis replies', () => { try { return redis('PING') === 'PONG'; } catch { return false; } });
  fill();
  for (let count = 0; count < 3; count++) start(leasehold, 'run', 'orders/42', '--', 'sleep', '1000');
  start(leasehold, 'run', 'reports/daily', '--', 'sleep', '1000');
  const busy = 'while :; do "$0" run --fenced jobs/index -- sleep 0.6; "$0" run mail/queue -- sleep 1.4; done';
  start('sh', '-c', busy, leasehold);
  const ui = start(leasehold, 'ui', '--listen', '127.0.0.1:0', '--allow-force');
  const [url] = await once(createInterface(ui.stdout), 'line');

  browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  const problems = [];
  const open = async (address, scheme) => {
    const context = await browser.newContext({ viewport: { width: 1600, height: 1000 }, colorScheme: scheme });
    const page = await context.newPage();
    page.on('dialog', dialog => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
    page.on('pageerror', error => problems.push(`error: ${error.message}`));
    page.on('console', message => {
      if (message.type() === 'error' && !message.text().includes('ERR_CONNECTION_REFUSED')) problems.push(`console: ${message.text()}`);
    });
    page.on('request', request => {
      if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith('data:')) problems.push(`request: ${request.url()}`);
    });
    await page.goto(address);
    await page.waitForSelector('#rows tr');
    return page;
  };
  const page = await open(url, 'dark');
  const names = async () => (await page.locator('td.name').allTextContents());
  await until('all objects are shown', async () => (await names()).includes('reports/daily') && (await names()).includes('orders/42'));

  // The page shows each name as text, even if the name contains HTML.
  assert.ok((await names()).includes(evil));
  assert.equal(await page.locator('#rows img').count(), 0);
  // The address of the page does not keep the token.
  assert.equal(new URL(page.url()).hash, '');

  // Objects in an odd state come first. A click on the title of a column sorts by this column.
  assert.equal((await names())[0], 'invoices/close');
  await page.getByRole('button', { name: 'Name', exact: true }).click();
  assert.deepEqual(await names(), [...await names()].sort());
  await page.fill('#filter', 'CATALOG');
  assert.deepEqual(await names(), ['catalog']);
  await page.fill('#filter', '');
  await page.getByRole('button', { name: 'Odd', exact: true }).click();

  // A hold that ends without a release is a loss.
  execFileSync(leasehold, ['lock', '--ttl', '4s', 'crashed/worker'], { env });
  await until('the loss is shown', async () => (await page.locator('#log b.bad').allTextContents()).includes('expired'));
  await sleep(20_000);
  await page.screenshot({ path: `${folder}/ui.png` });
  const light = await open(url, 'light');
  await sleep(1_500);
  await light.screenshot({ path: `${folder}/ui-light.png` });

  // Without the token, the page has no button.
  const reader = await open(new URL(url).origin, 'dark');
  await reader.waitForTimeout(1_500);
  assert.equal(await reader.getByRole('button', { name: /by force/ }).count(), 0);

  // The page asks before a release by force.
  const row = page.locator('tr', { hasText: 'legacy/import' });
  await row.getByRole('button', { name: /by force/ }).click();
  assert.match(await page.locator('#ask').innerText(), new RegExp(`legacy/import[^]*${owner}:42`));
  await page.screenshot({ path: `${folder}/ui-force.png` });
  await page.getByRole('button', { name: 'Keep it' }).click();
  assert.equal(redis('EXISTS', 'legacy/import'), '1');
  await row.getByRole('button', { name: /by force/ }).click();
  await page.getByRole('button', { name: 'Release by force', exact: true }).click();
  await until('it is released', () => redis('EXISTS', 'legacy/import') === '0');
  await until('it is an event', async () => (await page.locator('#log').innerText()).includes('forced'));
  // The page does not scroll sideways in a narrow window.
  await page.setViewportSize({ width: 420, height: 900 });
  await sleep(500);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));

  // The page shows a failure until it ends.
  const alarms = () => page.locator('#alarms').textContent();
  ui.kill('SIGSTOP');
  await until('a frozen leasehold ui is shown', async () => (await alarms()).includes('no connection'));
  ui.kill('SIGCONT');
  await until('it is back', async () => await alarms() === '');
  execFileSync('redis-cli', ['-p', String(port), 'SHUTDOWN', 'NOSAVE'], { stdio: 'ignore' });
  await until('the loss of Redis is shown', async () => (await alarms()).includes('cannot read the server'));
  ui.kill();
  await until('the loss of the server is shown', async () => (await alarms()).includes('no connection'));
  assert.deepEqual(problems, []);
  console.log(`browser: all good, the pictures are in ${folder}`);
} finally {
  await browser?.close();
  started.forEach(child => child.kill());
}
