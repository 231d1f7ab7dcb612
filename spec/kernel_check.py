"""Talks to `dflow --kernel` through jupyter_client: spec/program/kernel_spec.lua runs it where that is installed.

usage: kernel_check.py DFLOW; prints a line for each thing that works, and fails at the first that does not."""
import os, signal, sys, tempfile, time, json, urllib.request
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpecManager

dflow = os.path.abspath(sys.argv[1])
home = tempfile.mkdtemp()
os.makedirs(home + '/kernels/dflow')
with open(home + '/kernels/dflow/kernel.json', 'w') as f:
    json.dump({'argv': [dflow, '--kernel', '{connection_file}'], 'display_name': 'dflow', 'language': 'lua',
               'interrupt_mode': 'signal'}, f)
km = KernelManager(kernel_name='dflow', kernel_spec_manager=KernelSpecManager(kernel_dirs=[home + '/kernels']))
km.start_kernel()
kc = km.client()
kc.start_channels()
kc.wait_for_ready(timeout=60)


def run(code, **how):
    """What a cell gives: its reply and the messages it published, by type."""
    seen = {}
    reply = kc.execute_interactive(code, timeout=60, output_hook=lambda m: seen.setdefault(m['msg_type'], []).append(m['content']), **how)
    return reply['content'], seen


def wait_until(true):
    """Does that come true within a minute?"""
    for _ in range(600):
        if true():
            return True
        time.sleep(0.1)
    return False


def check(what, ok):
    if not ok:
        print('FAILED', what)
        km.shutdown_kernel(now=True)
        sys.exit(1)
    print('ok', what)


try:
    kc.kernel_info()
    info = kc.get_shell_msg(timeout=60)['content']
    check('kernel_info', info['language_info']['name'] == 'lua' and info['protocol_version'] == '5.3')
    reply, seen = run('1 + 1')
    check('a value', seen['execute_result'][0]['data']['text/plain'] == '2' and reply['execution_count'] == 1)
    reply, seen = run('local x = df.float32{1, 2}\nprint("hello")\n(x * 2):reduce_sum()')
    reply, seen = run('x = df.float32{1, 2}\nprint("hello")\nx:reduce_sum()')
    check('what is printed', seen['stream'][0]['text'] == 'hello\n')
    check('an output and its graph', '3.0 float32[]' in seen['execute_result'][0]['data']['text/plain']
          and '<svg' in seen['execute_result'][0]['data']['image/svg+xml'])
    reply, seen = run('df.plot{1, 3, 2}')
    check('a plot', '<svg' in seen['execute_result'][0]['data']['image/svg+xml'])
    reply, seen = run('x + df.float32{1, 2, 3}')
    check('an error with its line', reply['status'] == 'error' and reply['ename'] == 'invalid_argument'
          and any('^' in line for line in seen['error'][0]['traceback']) and 'In[5]:1' in reply['evalue'])
    reply, seen = run('x:')
    check('a mistake in Lua', reply['status'] == 'error' and reply['ename'] == 'error' and 'expected' in reply['evalue'])
    reply, seen = run('?matmul')
    check('help, in the pager', 'matrix product' in reply['payload'][0]['data']['text/plain'] and reply['payload'][0]['source'] == 'page')
    n = reply['execution_count']
    reply, seen = run('1, 2, "a"')
    check('several values', seen['execute_result'][0]['data']['text/plain'] == '1\t2\ta')
    reply, seen = run('quiet = 5', silent=True)
    reply, seen = run('quiet', store_history=False)
    check('what is not stored has no number', seen['execute_result'][0]['data']['text/plain'] == '5' and reply['execution_count'] == n + 1)
    reply, seen = run('quiet = quiet + 1', user_expressions={'q': 'quiet * 2', 'bad': 'quiet + nobody.x', 'no': 'x = = 1'})
    said = reply['user_expressions']
    check('expressions of the user', said['q']['data']['text/plain'] == '12' and said['bad']['status'] == said['no']['status'] == 'error'
          and reply['execution_count'] == n + 2)
    reply, seen = run(':serve')
    said = ''.join(part['text'] for part in seen['stream'])
    if 'http://' in said:           # else it was built without libmicrohttpd
        address = [line for line in said.split() if line.startswith('http://')][0]

        def shown():
            with urllib.request.urlopen(address + 'next?after=0', timeout=30) as page:
                return json.loads(page.read())['state']['said']
        run('df.run((while_loop(function(i) return i:lt(5) end, function(i) return i + 1 end, {0})))')
        check('a served run', wait_until(lambda: shown().startswith('the run is over') and ' 5 iterations' in shown()))
        run('served = df.start((while_loop(function(i) return i:lt(2000000000) end, function(i) return i + 1 end, {0})))')
        check('a served run in the background', wait_until(lambda: shown().startswith('running: ')))
        before = shown()
        check('that goes on while no cell runs', wait_until(lambda: shown() != before))
        run('served:cancel()')
        check('and ends', wait_until(lambda: 'cancelled' in shown()))
        run(':serve off')
    reply, seen = run('7;')
    check('a muted value', 'execute_result' not in seen)
    reply, seen = run('local z = df.float32{1, 2}\nz * 2\n:inputs z\nz + 1\n')
    check('several expressions in a cell, and a command', '[2. 4.]' in seen['display_data'][0]['data']['text/plain']
          and '[2. 3.]' in seen['execute_result'][0]['data']['text/plain'] and '(Const)' in seen['stream'][0]['text'])
    n = reply['execution_count']
    reply, seen = run('x\n:inputs x\nx + nobody')
    check('they are one input, whose lines errors name', reply['execution_count'] == n + 1 == seen['execute_input'][0]['execution_count']
          and 'In[%d]:3' % (n + 1) in reply['evalue'])
    reply, seen = run('if x:gt(0) then z = 1 end')
    check('a condition that is no scalar', reply['status'] == 'error' and 'In[%d]:1' % (n + 2) in reply['evalue']
          and 'a scalar bool is expected' in reply['evalue'])
    reply, seen = run('print(1)\nx = = 2\n3')
    check('what is no Lua at all is not run in part', reply['status'] == 'error' and 'stream' not in seen)
    def ask(request, *args, **how):
        msg = request(*args, **how)
        while True:
            m = kc.get_shell_msg(timeout=60)
            if m['parent_header'].get('msg_id') == msg:
                return m['content']
    c = ask(kc.complete, 'é = x:reduce_s', 14)
    check('completion', 'reduce_sum' in c['matches'] and c['cursor_start'] == 6 and c['cursor_end'] == 14)
    for code in ('df.nn.Den', 'df.train.Ada', 'df.rnn.LSTMC'):       # parts that nothing has named yet
        c = ask(kc.complete, code, len(code))
        check('completion of ' + code, any(m.startswith(code.split('.')[-1]) for m in c['matches']))
    for code, found in (('df.matmul(x, ', True), ('f(df.matmul(df.add(x, x), ', True), ('matmul', True), ('(', False), ('nobody(', False)):
        c = ask(kc.inspect, code, len(code))
        check('inspection inside of ' + code, c['found'] == found and (not found or 'matrix product' in c['data']['text/plain']))
    run('101'), run('102'), run('101')

    def history(**how):
        return ask(kc.history, raw=True, **how)['history']
    last = history(hist_access_type='tail', n=3)
    check('the last of the history', [h[2] for h in last] == ['101', '102', '101'])
    check('a range of the history', history(hist_access_type='range', session=0, start=last[0][1], stop=last[2][1]) == last[:2])
    check('a pattern in the history', [h[2] for h in history(hist_access_type='search', pattern='10?')] == ['101', '102', '101']
          and history(hist_access_type='search', pattern='10?', unique=True) == last[1:] and history(hist_access_type='search', pattern='1*1', n=1) == last[2:]
          and history(hist_access_type='search', pattern='10') == [])
    check('the history with what was given', history(hist_access_type='tail', n=1, output=True)[0][2] == ['101', '101'])
    waiting = [kc.execute(code) for code in ('df.run(df.reduce_sum(df.ones{300, 300}))', 'nobody.x', 'waited = 1', '2')]
    replies = {}
    while len(replies) < len(waiting):
        m = kc.get_shell_msg(timeout=60)
        replies[m['parent_header'].get('msg_id')] = m['content']['status']
    check('cells that wait behind one that fails', [replies[w] for w in waiting] == ['ok', 'error', 'aborted', 'aborted'])
    check('the next one', run('waited == nil')[1]['execute_result'][0]['data']['text/plain'] == 'true')
    comm = kc.session.msg('comm_open', {'comm_id': 'one', 'target_name': 'nothing', 'data': {}})
    kc.shell_channel.send(comm)
    while True:
        m = kc.get_iopub_msg(timeout=60)
        if m['parent_header'].get('msg_id') == comm['header']['msg_id'] and m['msg_type'] == 'comm_close':
            break
    check('a comm is closed', m['content']['comm_id'] == 'one')
    c = ask(kc.inspect, 'df.matmul(x)', 8)
    check('inspection', c['found'] and 'matrix product' in c['data']['text/plain'])
    check('is_complete', ask(kc.is_complete, 'for i = 1, 3 do')['status'] == 'incomplete'
          and ask(kc.is_complete, 'x = 1')['status'] == 'complete' and ask(kc.is_complete, 'x = = 1')['status'] == 'invalid')
    check('heartbeat', kc.hb_channel.is_beating())
    # an interrupt while a graph runs
    msg = kc.execute('df.run((select(2, while_loop(function(i) return i:lt(2e9) end, function(i, x) return i + 1, (x + 1):sin() end, {df.int32(0), df.float32(0)}))))', allow_stdin=False)
    while kc.get_iopub_msg(timeout=60)['content'].get('execution_state') != 'busy':
        pass
    time.sleep(0.5)
    km.interrupt_kernel()
    while True:
        m = kc.get_shell_msg(timeout=60)
        if m['parent_header'].get('msg_id') == msg:
            break
    check('an interrupt', m['content']['status'] == 'error' and ('cancel' in m['content']['evalue'] or 'interrupt' in m['content']['evalue']))
    # the same where somebody answers: it asks, shows what it is asked for, and goes on; 2^31 iterations are over in seconds
    run('stop = df.Variable(false)\ni = while_loop(function(i) return stop:value():logical_not() end, function(i) return i + 1 end, {df.int64(0)})')
    msg = kc.execute('print("before")\ndf.run(i) > 0', allow_stdin=True)
    printed = ''

    def heard(*until, text=''):
        """Messages of such types, and whatever is printed until they and `text` have come; each channel has an order of its own."""
        global printed
        found, ends = {}, time.monotonic() + 60
        while time.monotonic() < ends:
            for get in (kc.get_iopub_msg, kc.get_stdin_msg, kc.get_shell_msg):
                try:
                    m = get(timeout=0.05)
                except Exception:
                    continue
                if m['parent_header'].get('msg_id') != msg:
                    continue
                if m['msg_type'] == 'stream':
                    printed += m['content']['text']
                if m['msg_type'] in until:
                    found[m['msg_type']] = m['content']
            if len(found) == len(until) and text in printed:
                return [found[name] for name in until]
        check('%s with %r; printed was %r' % (until, text, printed), False)
    heard('execute_input')
    time.sleep(0.5)
    km.interrupt_kernel()
    check('a question', heard('input_request', text=':continue, :step, :frames')[0]['prompt'] == 'paused> ' and 'before\n' in printed)
    kc.input(':frames')
    heard('input_request', text='in flight')
    check('an answer', True)
    kc.input('stop:load(true)')
    heard('input_request')
    kc.input(':continue')
    result, reply = heard('execute_result', 'execute_reply')
    check('it goes on', result['data']['text/plain'] == 'true' and reply['status'] == 'ok')
    run('stop:load(false)')
    msg = kc.execute('df.run(i)', allow_stdin=True)
    heard('execute_input')
    time.sleep(0.5)
    km.interrupt_kernel()
    heard('input_request')
    km.interrupt_kernel()
    reply, = heard('execute_reply')
    check('two interrupts cancel', reply['status'] == 'error' and 'cancel' in reply['evalue'])
    # what a long input prints is heard of before it is over
    msg = kc.execute('stop = false\nfor k = 1, 40 do print("step", k) local t = os.clock() while os.clock() - t < 0.02 do end end')
    printed = ''
    at = None
    while 'step\t40' not in printed:
        m = kc.get_iopub_msg(timeout=60)
        if m['parent_header'].get('msg_id') == msg and m['msg_type'] == 'stream':
            printed += m['content']['text']
            at = at or printed
    check('prints come as they are made', 'step\t40' not in at and printed == ''.join('step\t%d\n' % k for k in range(1, 41)))
    heard('execute_reply')
    reply, seen = run('x:reduce_sum():eval()')
    check('the session lives on', seen['execute_result'][0]['data']['text/plain'] == '3.0')
    # a message with a wrong signature is dropped
    right = kc.session.key
    kc.session.key = b'wrong'
    kc.execute('wrong = 1')
    kc.session.key = right
    reply, seen = run('wrong')
    check('a wrong signature', 'execute_result' not in seen)
    took = []
    for _ in range(20):
        began = time.perf_counter()
        msg = kc.execute('1 + 1')
        while kc.get_shell_msg(timeout=60)['parent_header'].get('msg_id') != msg:
            pass
        took.append(time.perf_counter() - began)
    print('1 + 1 in %.1f ms' % (sorted(took)[10] * 1000))
    kc.shutdown()
    for _ in range(600):
        if not km.is_alive():
            break
        time.sleep(0.1)
    check('shutdown', not km.is_alive())
    status = km.provisioner.process.wait()
    check('ends with status %s' % status, status == 0)
finally:
    kc.stop_channels()
    if km.is_alive():
        km.shutdown_kernel(now=True)
