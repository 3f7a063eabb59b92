import { expect, test } from 'vitest'
import { parseSentinelUrl, redisUrlProblem } from '../../../src/guest/store/redis-url.ts'

test.each([
  'redis://localhost',
  'rediss://user:p%40ss@redis.example:6380/2',
  'redis://[::1]:6379',
  'redis+sentinel://a:26379,b/primary',
  'rediss+sentinel://user:p%3Ass@a/primary/3',
])('%s is a URL of Redis', (url) => expect(redisUrlProblem(url)).toBeUndefined())

test.each([
  'http://localhost',
  'redis://',
  'redis://host:port',
  'redis://host:70000',
  'redis://host/database',
  'redis://a%zz@host',
  'redis+sentinel://host',
  'redis+sentinel://host/',
  'redis+sentinel://a,,b/primary',
  'redis+sentinel://host:port/primary',
  'redis+sentinel://a%zz@host/primary',
])('%s is none', (url) => expect(redisUrlProblem(url)).toEqual(expect.any(String)))

test.each([
  'http://localhost',
  'redis://a%zz@host',
])('the problem of %s shows what a URL looks like', (url) => {
  expect(redisUrlProblem(url)).toContain('redis://USER:PASSWORD@HOST:6379/0')
})

test('a problem does not repeat a password', () => {
  expect(redisUrlProblem('redis://user:hunter2%zz@host')).not.toContain('hunter2')
})

test('the URL of Sentinels has its parts', () => {
  expect(parseSentinelUrl('rediss+sentinel://u%40:p:%20@[::1]:1,b/primary/3')).toEqual({
    isTls: true,
    login: { username: 'u@', password: 'p: ' },
    sentinels: [
      { host: '::1', port: 1 },
      { host: 'b', port: 26_379 },
    ],
    name: 'primary',
    database: 3,
  })
  expect(parseSentinelUrl('redis+sentinel://:secret@a/p')?.login).toEqual({
    username: 'default',
    password: 'secret',
  })
  expect(parseSentinelUrl('redis+sentinel://a/p')?.login).toBeUndefined()
  expect(parseSentinelUrl('redis://a/p')).toBeUndefined()
})
